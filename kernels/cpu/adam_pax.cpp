#include "kernels/adam_pax.hpp"

#include "kernels/cpu/adam_pax_loops.hpp"

namespace millrace::kernels::cpu {
namespace {

void update(const ExecutionContext& context, const AdamPaxScalars& scalars, const OptimizerTensors& tensors) {
  const double decay1 = adam_pax_decay(scalars.beta1, scalars.update), decay2 = adam_pax_decay(scalars.beta2, scalars.update);
  const AdamPaxLoop loop{
      .at = update_pointers<2>(tensors),
      .keep = static_cast<float>(1.0 - scalars.learning_rate * (tensors.decays ? scalars.weight_decay : 0.0)),
      .rate = static_cast<float>(scalars.learning_rate),
      .decay1 = static_cast<float>(decay1),
      .rest1 = static_cast<float>(1.0 - decay1),
      .decay2 = static_cast<float>(decay2),
      .rest2 = static_cast<float>(1.0 - decay2),
      .epsilon = static_cast<float>(scalars.epsilon),
      .gradient_scale = scalars.gradient_scale,
  };
  context.team().for_ranges(tensors.parameter.elements(), update_grain,
                            [&](std::int64_t begin, std::int64_t end) { pick_adam_pax_range()(loop, begin, end); });
}

void adam_pax(const ExecutionContext& context, const AdamPaxScalars& scalars, std::span<const OptimizerTensors> tensors) {
  for (const OptimizerTensors& each : tensors) update(context, scalars, each);
}

const InTable in_table[] = {
    {Backend::cpu, table::adam_pax, adam_pax},
};

}  // namespace
}  // namespace millrace::kernels::cpu
