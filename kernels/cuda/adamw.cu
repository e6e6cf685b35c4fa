#include <cmath>

#include "kernels/adamw.hpp"
#include "kernels/cuda/update.cuh"

namespace millrace::kernels::cuda {
namespace {

struct AdamwRule {
  static constexpr int states = 2;  // m, v
  float gradient_scale, beta1, rest1, beta2, rest2, negative_step_size, correction, epsilon;
  float keep;  // 1 − lr·decay
  bool nesterov;
  float momentum_step, gradient_step;  // with nesterov: lr·β1/(1−β1ᵗ⁺¹), lr·(1−β1)/(1−β1ᵗ)

  __device__ __forceinline__ void operator()(float& p, float* state, float gradient, bool decays) const {
    const float g = gradient * gradient_scale;
    state[0] = beta1 * state[0] + rest1 * g;
    state[1] = beta2 * state[1] + rest2 * g * g;
    const float denominator = sqrtf(state[1]) / correction + epsilon, kept = p * (decays ? keep : 1.0F);
    p = nesterov ? kept - (momentum_step * state[0] + gradient_step * g) / denominator : kept + negative_step_size * state[0] / denominator;
  }
};

void adamw(const ExecutionContext& context, const AdamwScalars& scalars, std::span<const OptimizerTensors> tensors) {
  const auto t = static_cast<double>(scalars.update);
  AdamwRule rule = {};
  rule.gradient_scale = scalars.gradient_scale;
  rule.beta1 = static_cast<float>(scalars.beta1);
  rule.rest1 = static_cast<float>(1.0 - scalars.beta1);
  rule.beta2 = static_cast<float>(scalars.beta2);
  rule.rest2 = static_cast<float>(1.0 - scalars.beta2);
  rule.negative_step_size = -static_cast<float>(scalars.learning_rate / (1.0 - std::pow(scalars.beta1, t)));
  rule.correction = static_cast<float>(std::sqrt(1.0 - std::pow(scalars.beta2, t)));
  rule.epsilon = static_cast<float>(scalars.epsilon);
  rule.keep = static_cast<float>(1.0 - scalars.learning_rate * scalars.weight_decay);
  rule.nesterov = scalars.nesterov;
  rule.momentum_step = static_cast<float>(scalars.learning_rate * scalars.beta1 / (1.0 - std::pow(scalars.beta1, t + 1)));
  rule.gradient_step = static_cast<float>(scalars.learning_rate * (1.0 - scalars.beta1) / (1.0 - std::pow(scalars.beta1, t)));
  update_tensors(context, "kernels.adamw", rule, tensors);
}

const InTable in_table[] = {
    {Backend::cuda, table::adamw, adamw},
};

}  // namespace
}  // namespace millrace::kernels::cuda
