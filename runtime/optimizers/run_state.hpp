#pragma once

#include <string>
#include <tuple>
#include <vector>

namespace millrace::runtime {

/// Numbers that a run must carry from step to step beside its parameters and their optimizer states, such as the losses that a spike is
/// compared with. They are part of a checkpoint's tensors, and so of its hash, as f64, which has every fp32 number and every count exactly.
struct RunStateTensor {
  std::string name;  // begins with run_state_prefix
  std::vector<double> values;
  auto tie() { return std::tie(name, values); }  // for the wire between processes
  bool operator==(const RunStateTensor&) const = default;
};
using RunState = std::vector<RunStateTensor>;

/// No parameter's name begins with it.
inline constexpr const char* run_state_prefix = "run/";

}  // namespace millrace::runtime
