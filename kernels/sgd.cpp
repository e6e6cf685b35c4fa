#include "kernels/sgd.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {

void sgd(const ExecutionContext& context, const SgdScalars& scalars, std::span<const OptimizerTensors> tensors) {
  constexpr const char* who = "kernels.sgd";
  for (const OptimizerTensors& each : tensors) {
    if (scalars.momentum > 0)
      check_optimizer_tensors(who, each, {"momentum"});
    else
      check_optimizer_tensors(who, each, {});
  }
  table::sgd(context, scalars, tensors);
}

}  // namespace millrace::kernels
