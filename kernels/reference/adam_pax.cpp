#include "kernels/adam_pax.hpp"

#include <cmath>

namespace millrace::kernels::reference {
namespace {

void update(const AdamPaxScalars& scalars, const OptimizerTensors& tensors) {
  const double decay = tensors.decays ? scalars.weight_decay : 0.0;
  const auto keep = static_cast<float>(1.0 - scalars.learning_rate * decay), rate = static_cast<float>(scalars.learning_rate);
  const double d1 = adam_pax_decay(scalars.beta1, scalars.update), d2 = adam_pax_decay(scalars.beta2, scalars.update);
  const auto decay1 = static_cast<float>(d1), rest1 = static_cast<float>(1.0 - d1);
  const auto decay2 = static_cast<float>(d2), rest2 = static_cast<float>(1.0 - d2);
  const auto epsilon = static_cast<float>(scalars.epsilon);
  for (std::int64_t i = 0; i < tensors.parameter.elements(); ++i) {
    float& parameter = tensors.parameter.as<float>()[i];
    float& first = tensors.states[0].as<float>()[i];
    float& second = tensors.states[1].as<float>()[i];
    const float g = tensors.gradient.as<float>()[i] * scalars.gradient_scale;
    first = decay1 * first + rest1 * g;
    second = decay2 * second + rest2 * g * g;
    parameter = parameter * keep - rate * first / (std::sqrt(second) + epsilon);
    if (tensors.copy) tensors.copy.as<BFloat16>()[i] = to_bfloat16(parameter);
    tensors.gradient.as<float>()[i] = 0.0F;
  }
}

void adam_pax(const AdamPaxScalars& scalars, std::span<const OptimizerTensors> tensors) {
  for (const OptimizerTensors& each : tensors) update(scalars, each);
}

const InTable adam_pax_in_table[] = {
    {Backend::reference, table::adam_pax, without_context<adam_pax>},
};

}  // namespace
}  // namespace millrace::kernels::reference
