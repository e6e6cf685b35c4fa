#include "runtime/optimizers/stored_averages.hpp"

#include <algorithm>

#include "kernels/base/check.hpp"
#include "runtime/optimizers/averaged.hpp"

namespace millrace::runtime {

void check_averages(const CheckpointReader& checkpoint, const char* component) {
  const std::string prefix = OptimizerState{average_name}.tensor_name("");
  MILLRACE_CHECK(std::ranges::any_of(checkpoint.manifest().tensors, [&](const auto& tensor) { return tensor.name.starts_with(prefix); }),
                 ExitCode::usage, component, "--average for {}, which has no moving averages: its run had train.average_decay = 0",
                 checkpoint.folder());
}

std::string average_or_itself(const CheckpointReader& checkpoint, const std::string& parameter) {
  const std::string average = OptimizerState{average_name}.tensor_name(parameter);
  return checkpoint.find(average) != nullptr ? average : parameter;
}

}  // namespace millrace::runtime
