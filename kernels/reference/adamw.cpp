#include "kernels/adamw.hpp"

#include <cmath>

namespace millrace::kernels::reference {
namespace {

void update(const AdamwScalars& scalars, const Tensor& p, const Tensor& m, const Tensor& v, const Tensor& gradient, const Tensor& copy) {
  const auto t = static_cast<double>(scalars.update);
  const auto keep = static_cast<float>(1.0 - scalars.learning_rate * scalars.weight_decay);
  const auto step_size = static_cast<float>(scalars.learning_rate / (1.0 - std::pow(scalars.beta1, t)));
  const auto correction = static_cast<float>(std::sqrt(1.0 - std::pow(scalars.beta2, t)));
  const auto beta1 = static_cast<float>(scalars.beta1), rest1 = static_cast<float>(1.0 - scalars.beta1);
  const auto beta2 = static_cast<float>(scalars.beta2), rest2 = static_cast<float>(1.0 - scalars.beta2);
  const auto epsilon = static_cast<float>(scalars.epsilon);
  for (std::int64_t i = 0; i < p.elements(); ++i) {
    float& parameter = p.as<float>()[i];
    float& first = m.as<float>()[i];
    float& second = v.as<float>()[i];
    const float g = gradient.as<float>()[i] * scalars.gradient_scale;
    parameter *= keep;
    first = beta1 * first + rest1 * g;
    second = beta2 * second + rest2 * g * g;
    const float denominator = std::sqrt(second) / correction + epsilon;
    parameter = parameter + -step_size * first / denominator;
    if (copy) copy.as<BFloat16>()[i] = to_bfloat16(parameter);
    gradient.as<float>()[i] = 0.0F;
  }
}

void adamw(const AdamwScalars& scalars, std::span<const AdamwTensors> tensors) {
  for (const auto& [p, m, v, gradient, copy, decays] : tensors) {
    AdamwScalars own = scalars;
    if (!decays) own.weight_decay = 0;
    update(own, p, m, v, gradient, copy);
  }
}

const InTable in_table[] = {
    {Backend::reference, table::adamw, without_context<adamw>},
};

}  // namespace
}  // namespace millrace::kernels::reference
