#include "kernels/adamw.hpp"

#include <cmath>

#include "kernels/cpu/adamw_loops.hpp"

namespace millrace::kernels::cpu {
namespace {

void update(const ExecutionContext& context, const AdamwScalars& scalars, const OptimizerTensors& tensors) {
  const auto t = static_cast<double>(scalars.update);
  const AdamwLoop loop{
      .at = update_pointers<2>(tensors),
      .keep = static_cast<float>(1.0 - scalars.learning_rate * (tensors.decays ? scalars.weight_decay : 0.0)),
      .negative_step_size = -static_cast<float>(scalars.learning_rate / (1.0 - std::pow(scalars.beta1, t))),
      .correction = static_cast<float>(std::sqrt(1.0 - std::pow(scalars.beta2, t))),
      .beta1 = static_cast<float>(scalars.beta1),
      .rest1 = static_cast<float>(1.0 - scalars.beta1),
      .beta2 = static_cast<float>(scalars.beta2),
      .rest2 = static_cast<float>(1.0 - scalars.beta2),
      .epsilon = static_cast<float>(scalars.epsilon),
      .gradient_scale = scalars.gradient_scale,
      .nesterov = scalars.nesterov,
      .momentum_step = static_cast<float>(scalars.learning_rate * scalars.beta1 / (1.0 - std::pow(scalars.beta1, t + 1))),
      .gradient_step = static_cast<float>(scalars.learning_rate * (1.0 - scalars.beta1) / (1.0 - std::pow(scalars.beta1, t))),
  };
  context.team().for_ranges(tensors.parameter.elements(), update_grain,
                            [&](std::int64_t begin, std::int64_t end) { pick_adamw_range()(loop, begin, end); });
}

void adamw(const ExecutionContext& context, const AdamwScalars& scalars, std::span<const OptimizerTensors> tensors) {
  for (const OptimizerTensors& each : tensors) update(context, scalars, each);
}

const InTable in_table[] = {
    {Backend::cpu, table::adamw, adamw},
};

}  // namespace
}  // namespace millrace::kernels::cpu
