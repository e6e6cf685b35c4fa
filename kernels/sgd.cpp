#include "kernels/sgd.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {

void sgd(const ExecutionContext& context, const SgdScalars& scalars, std::span<const OptimizerTensors> tensors) {
  constexpr const char* component = "kernels.sgd";
  for (const OptimizerTensors& each : tensors) {
    if (scalars.momentum > 0)
      check_optimizer_tensors(component, each, {"momentum"});
    else
      check_optimizer_tensors(component, each, {});
  }
  table::sgd(context, scalars, tensors);
}

}  // namespace millrace::kernels
