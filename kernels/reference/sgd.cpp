#include "kernels/sgd.hpp"

namespace millrace::kernels::reference {
namespace {

void update(const SgdScalars& scalars, const OptimizerTensors& tensors) {
  const auto rate = static_cast<float>(scalars.learning_rate), momentum = static_cast<float>(scalars.momentum);
  const auto decay = static_cast<float>(tensors.decays ? scalars.weight_decay : 0.0);
  for (std::int64_t i = 0; i < tensors.parameter.elements(); ++i) {
    float& parameter = tensors.parameter.as<float>()[i];
    const float g = tensors.gradient.as<float>()[i] * scalars.gradient_scale + decay * parameter;
    float direction = g;
    if (scalars.momentum > 0) {
      float& buffer = tensors.states[0].as<float>()[i];
      buffer = momentum * buffer + g;
      direction = scalars.nesterov ? g + momentum * buffer : buffer;
    }
    parameter = parameter - rate * direction;
    if (tensors.copy) tensors.copy.as<BFloat16>()[i] = to_bfloat16(parameter);
    tensors.gradient.as<float>()[i] = 0.0F;
  }
}

void sgd(const SgdScalars& scalars, std::span<const OptimizerTensors> tensors) {
  for (const OptimizerTensors& each : tensors) update(scalars, each);
}

const InTable sgd_in_table[] = {
    {Backend::reference, table::sgd, without_context<sgd>},
};

}  // namespace
}  // namespace millrace::kernels::reference
