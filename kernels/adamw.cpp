#include "kernels/adamw.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {

void adamw(const ExecutionContext& context, const AdamwScalars& scalars, std::span<const OptimizerTensors> tensors) {
  constexpr const char* component = "kernels.adamw";
  MILLRACE_CHECK(scalars.update >= 1, ExitCode::internal, component, "update {}, expected 1 or more", scalars.update);
  for (const OptimizerTensors& each : tensors) check_optimizer_tensors(component, each, {"m", "v"}, true);
  table::adamw(context, scalars, tensors);
}

}  // namespace millrace::kernels
