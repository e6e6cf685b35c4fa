#include "kernels/sgd.hpp"

#include "kernels/cpu/sgd_loops.hpp"

namespace millrace::kernels::cpu {
namespace {

template <int States>
SgdLoop<States> loop_of(const SgdScalars& scalars, const OptimizerTensors& tensors) {
  return {
      .at = update_pointers<States>(tensors),
      .rate = static_cast<float>(scalars.learning_rate),
      .momentum = static_cast<float>(scalars.momentum),
      .decay = static_cast<float>(tensors.decays ? scalars.weight_decay : 0.0),
      .gradient_scale = scalars.gradient_scale,
      .nesterov = scalars.nesterov,
  };
}

void update(const ExecutionContext& context, const SgdScalars& scalars, const OptimizerTensors& tensors) {
  const auto for_ranges = [&](const auto& body) { context.team().for_ranges(tensors.parameter.elements(), update_grain, body); };
  if (scalars.momentum > 0) {
    const auto loop = loop_of<1>(scalars, tensors);
    for_ranges([&](std::int64_t begin, std::int64_t end) { pick_sgd_momentum_range()(loop, begin, end); });
  } else {
    const auto loop = loop_of<0>(scalars, tensors);
    for_ranges([&](std::int64_t begin, std::int64_t end) { pick_sgd_range()(loop, begin, end); });
  }
}

void sgd(const ExecutionContext& context, const SgdScalars& scalars, std::span<const OptimizerTensors> tensors) {
  for (const OptimizerTensors& each : tensors) update(context, scalars, each);
}

const InTable in_table[] = {
    {Backend::cpu, table::sgd, sgd},
};

}  // namespace
}  // namespace millrace::kernels::cpu
