#pragma once

#include <cstdint>
#include <string>

namespace millrace::actors {

/// How ranks use GPUs, where `device` is "cuda".
struct CudaConfig {
  std::int64_t device = -1;  // cuda.device: the GPU of all ranks of a host; -1: its ranks take its GPUs in turn
  bool graphs = true;        // cuda.graphs: an action that ran before is queued as one graph
  bool tf32 = false;         // cuda.tf32: f32 products may round their operands to tf32
  std::string algorithms =
      "auto";  // cuda.algorithms: file of the measured choices; "auto": products.txt of run.directory; empty: none is measured
};

}  // namespace millrace::actors
