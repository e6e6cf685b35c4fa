#include "kernels/adamw.hpp"

#include <cmath>

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

void update(const AdamwScalars& scalars, const OptimizerTensors& tensors) {
  const auto t = static_cast<double>(scalars.update);
  const double decay = tensors.decays ? scalars.weight_decay : 0.0;
  const auto keep = static_cast<float>(1.0 - scalars.learning_rate * decay);
  const auto step_size = static_cast<float>(scalars.learning_rate / (1.0 - std::pow(scalars.beta1, t)));
  const auto momentum_step = static_cast<float>(scalars.learning_rate * scalars.beta1 / (1.0 - std::pow(scalars.beta1, t + 1)));
  const auto gradient_step = static_cast<float>(scalars.learning_rate * (1.0 - scalars.beta1) / (1.0 - std::pow(scalars.beta1, t)));
  const auto correction = static_cast<float>(std::sqrt(1.0 - std::pow(scalars.beta2, t)));
  const auto beta1 = static_cast<float>(scalars.beta1), rest1 = static_cast<float>(1.0 - scalars.beta1);
  const auto beta2 = static_cast<float>(scalars.beta2), rest2 = static_cast<float>(1.0 - scalars.beta2);
  const auto epsilon = static_cast<float>(scalars.epsilon);
  for (std::int64_t i = 0; i < tensors.parameter.elements(); ++i) {
    float& parameter = tensors.parameter.as<float>()[i];
    float first = load(tensors.states[0], i);
    float& second = tensors.states[1].as<float>()[i];
    const float g = tensors.gradient.as<float>()[i] * scalars.gradient_scale;
    parameter *= keep;
    first = beta1 * first + rest1 * g;
    second = beta2 * second + rest2 * g * g;
    store(tensors.states[0], i, first);
    const float denominator = std::sqrt(second) / correction + epsilon;
    if (scalars.nesterov)
      parameter = parameter - (momentum_step * first + gradient_step * g) / denominator;
    else
      parameter = parameter + -step_size * first / denominator;
    if (tensors.copy) tensors.copy.as<BFloat16>()[i] = to_bfloat16(parameter);
    tensors.gradient.as<float>()[i] = 0.0F;
  }
}

void adamw(const AdamwScalars& scalars, std::span<const OptimizerTensors> tensors) {
  for (const OptimizerTensors& each : tensors) update(scalars, each);
}

const InTable adamw_in_table[] = {
    {Backend::reference, table::adamw, without_context<adamw>},
};

}  // namespace
}  // namespace millrace::kernels::reference
