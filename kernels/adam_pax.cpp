#include "kernels/adam_pax.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {

void adam_pax(const ExecutionContext& context, const AdamPaxScalars& scalars, std::span<const OptimizerTensors> tensors) {
  constexpr const char* component = "kernels.adam_pax";
  MILLRACE_CHECK(scalars.update >= 1, ExitCode::internal, component, "update {}, expected 1 or more", scalars.update);
  for (const OptimizerTensors& each : tensors) check_optimizer_tensors(component, each, {"m", "v"});
  table::adam_pax(context, scalars, tensors);
}

}  // namespace millrace::kernels
