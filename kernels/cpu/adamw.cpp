#include "kernels/adamw.hpp"

#include <cmath>

#include "kernels/cpu/adamw_loops.hpp"

namespace millrace::kernels::cpu {
namespace {

void update(const ExecutionContext& context, const AdamwScalars& scalars, const Tensor& p, const Tensor& m, const Tensor& v,
            const Tensor& gradient, const Tensor& copy) {
  const auto t = static_cast<double>(scalars.update);
  const AdamwLoop loop{
      .p = p.as<float>(),
      .m = m.as<float>(),
      .v = v.as<float>(),
      .gradient = gradient.as<float>(),
      .copy = copy ? copy.as<BFloat16>() : nullptr,
      .keep = static_cast<float>(1.0 - scalars.learning_rate * scalars.weight_decay),
      .negative_step_size = -static_cast<float>(scalars.learning_rate / (1.0 - std::pow(scalars.beta1, t))),
      .correction = static_cast<float>(std::sqrt(1.0 - std::pow(scalars.beta2, t))),
      .beta1 = static_cast<float>(scalars.beta1),
      .rest1 = static_cast<float>(1.0 - scalars.beta1),
      .beta2 = static_cast<float>(scalars.beta2),
      .rest2 = static_cast<float>(1.0 - scalars.beta2),
      .epsilon = static_cast<float>(scalars.epsilon),
      .gradient_scale = scalars.gradient_scale,
  };
  context.team().for_ranges(p.elements(), 4096, [&](std::int64_t begin, std::int64_t end) { pick_adamw_range()(loop, begin, end); });
}

void adamw(const ExecutionContext& context, const AdamwScalars& scalars, std::span<const AdamwTensors> tensors) {
  for (const auto& [p, m, v, gradient, copy, decays] : tensors) {
    AdamwScalars own = scalars;
    if (!decays) own.weight_decay = 0;
    update(context, own, p, m, v, gradient, copy);
  }
}

const InTable in_table[] = {
    {Backend::cpu, table::adamw, adamw},
};

}  // namespace
}  // namespace millrace::kernels::cpu
