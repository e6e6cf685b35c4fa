#include "kernels/cuda/update.cuh"
#include "kernels/sgd.hpp"

namespace millrace::kernels::cuda {
namespace {

/// States: 1 with momentum, else 0.
template <int States>
struct SgdRule {
  static constexpr int states = States;
  float rate, momentum, decay, gradient_scale;
  bool nesterov;

  __device__ __forceinline__ void operator()(float& p, float* state, float gradient, bool decays) const {
    const float g = gradient * gradient_scale + (decays ? decay : 0.0F) * p;
    float direction = g;
    if constexpr (States > 0) {
      state[0] = momentum * state[0] + g;
      direction = nesterov ? g + momentum * state[0] : state[0];
    }
    p = p - rate * direction;
  }
};

template <int States>
void update(const ExecutionContext& context, const SgdScalars& scalars, std::span<const OptimizerTensors> tensors) {
  SgdRule<States> rule = {};
  rule.rate = static_cast<float>(scalars.learning_rate);
  rule.momentum = static_cast<float>(scalars.momentum);
  rule.decay = static_cast<float>(scalars.weight_decay);
  rule.gradient_scale = scalars.gradient_scale;
  rule.nesterov = scalars.nesterov;
  update_tensors(context, "kernels.sgd", rule, tensors);
}

void sgd(const ExecutionContext& context, const SgdScalars& scalars, std::span<const OptimizerTensors> tensors) {
  if (scalars.momentum > 0)
    update<1>(context, scalars, tensors);
  else
    update<0>(context, scalars, tensors);
}

const InTable in_table[] = {
    {Backend::cuda, table::sgd, sgd},
};

}  // namespace
}  // namespace millrace::kernels::cuda
