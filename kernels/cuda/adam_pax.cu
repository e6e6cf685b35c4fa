#include "kernels/adam_pax.hpp"
#include "kernels/cuda/update.cuh"

namespace millrace::kernels::cuda {
namespace {

struct AdamPaxRule {
  static constexpr int states = 2;  // m, v
  float gradient_scale, decay1, rest1, decay2, rest2, rate, epsilon;
  float keep;  // 1 − lr·decay

  __device__ __forceinline__ void operator()(float& p, float* state, float gradient, bool decays) const {
    const float g = gradient * gradient_scale;
    state[0] = decay1 * state[0] + rest1 * g;
    state[1] = decay2 * state[1] + rest2 * g * g;
    p = p * (decays ? keep : 1.0F) - rate * state[0] / (sqrtf(state[1]) + epsilon);
  }
};

void adam_pax(const ExecutionContext& context, const AdamPaxScalars& scalars, std::span<const OptimizerTensors> tensors) {
  const double decay1 = adam_pax_decay(scalars.beta1, scalars.update), decay2 = adam_pax_decay(scalars.beta2, scalars.update);
  AdamPaxRule rule = {};
  rule.gradient_scale = scalars.gradient_scale;
  rule.decay1 = static_cast<float>(decay1);
  rule.rest1 = static_cast<float>(1.0 - decay1);
  rule.decay2 = static_cast<float>(decay2);
  rule.rest2 = static_cast<float>(1.0 - decay2);
  rule.rate = static_cast<float>(scalars.learning_rate);
  rule.epsilon = static_cast<float>(scalars.epsilon);
  rule.keep = static_cast<float>(1.0 - scalars.learning_rate * scalars.weight_decay);
  update_tensors(context, "kernels.adam_pax", rule, tensors);
}

const InTable in_table[] = {
    {Backend::cuda, table::adam_pax, adam_pax},
};

}  // namespace
}  // namespace millrace::kernels::cuda
