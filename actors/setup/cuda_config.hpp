#pragma once

#include <cstdint>
#include <string>

namespace millrace::actors {

/// How ranks use GPUs if `device` is "cuda".
struct CudaConfig {
  std::int64_t device = -1;  // cuda.device: the GPU for all ranks of a host; -1: its ranks are assigned to its GPUs in turn
  bool graphs = true;        // cuda.graphs: an action that has run before is launched as one graph
  bool tf32 = false;         // cuda.tf32: f32 matrix products may round their operands to tf32
  std::string algorithms =
      "auto";  // cuda.algorithms: file of the measured choices; "auto": products.txt in run.directory; empty: nothing is measured
};

}  // namespace millrace::actors
