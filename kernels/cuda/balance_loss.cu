#include "kernels/balance_loss.hpp"

#include "kernels/cuda/router_losses.cuh"

namespace millrace::kernels::cuda {
namespace {

struct NoChoices {
  std::int32_t* choices;
  __device__ void operator()(std::int64_t i) const { choices[i] = 0; }
};

/// Integers, so that the order of the additions does not matter.
struct CountChoice {
  const std::int32_t* experts;
  std::int32_t* choices;
  std::int64_t of_sequence, count;  // choices of a sequence; experts
  FaultSlot* fault;
  __device__ void operator()(std::int64_t i) const {
    const std::int32_t expert = experts[i];
    if (expert < 0 || expert >= count)
      report(fault, FaultSlot::expert, expert, i, count);
    else
      atomicAdd(choices + i / of_sequence * count + expert, 1);
  }
};

template <class T>
struct BalancedTokens {
  const T* logits;
  const std::int32_t* choices;
  std::int64_t experts, sequence;

  __device__ const T* logits_of(std::int64_t t) const { return logits + t * experts; }
  __device__ const std::int32_t* choices_of(std::int64_t t) const { return choices + t / sequence * experts; }
  /// Σ choices · exp(logit − maximum), to every lane.
  __device__ float weighted(std::int64_t t, float maximum) const {
    float sum = 0;
    for (std::int64_t e = threadIdx.x % 32; e < experts; e += 32)
      sum += expf(load(logits_of(t) + e) - maximum) * static_cast<float>(choices_of(t)[e]);
    return warp_sum(sum);
  }
};

template <class T>
struct BalanceTerm {
  BalancedTokens<T> at;
  __device__ double operator()(std::int64_t t) const {
    const SoftmaxRow row = softmax_row(at.logits_of(t), at.experts);
    return static_cast<double>(at.weighted(t, row.maximum)) / static_cast<double>(row.sum);
  }
};

template <class T>
struct BalanceGradient {
  BalancedTokens<T> at;
  const float* scale;
  double factor;
  T* d_logits;
  __device__ void operator()(std::int64_t t) const {
    const SoftmaxRow row = softmax_row(at.logits_of(t), at.experts);
    const float mean = at.weighted(t, row.maximum) / row.sum;
    const float by = static_cast<float>(static_cast<double>(scale[0]) * factor) / row.sum;
    for (std::int64_t e = threadIdx.x % 32; e < at.experts; e += 32) {
      const float weight = expf(load(at.logits_of(t) + e) - row.maximum) * by;
      store(d_logits + t * at.experts + e, weight * (static_cast<float>(at.choices_of(t)[e]) - mean));
    }
  }
};

template <class T>
BalancedTokens<T> balanced_tokens(const Tensor& logits, const Tensor& choices, BalanceLossOptions options) {
  return {logits.as<T>(), choices.as<std::int32_t>(), logits.shape[1], logits.shape[0] / options.sequences};
}

void balance_loss(const ExecutionContext& context, const Tensor& logits, const Tensor& experts, BalanceLossOptions options,
                  const Tensor& loss, const Tensor& choices) {
  constexpr const char* component = "kernels.balance_loss";
  for_each(context, component, choices.elements(), NoChoices{choices.as<std::int32_t>()});
  for_each(context, component, experts.elements(),
           CountChoice{experts.as<std::int32_t>(), choices.as<std::int32_t>(), experts.elements() / options.sequences, logits.shape[1],
                       state_of(context).fault});
  with_type(logits.dtype, [&]<class T>(T) {
    sum_tokens(context, component, logits.shape[0], BalanceTerm<T>{balanced_tokens<T>(logits, choices, options)},
               balance_factor(logits.shape, options), loss.as<double>());
  });
}

void balance_loss_input_gradient(const ExecutionContext& context, const Tensor& logits, const Tensor& choices, const Tensor& scale,
                                 BalanceLossOptions options, const Tensor& d_logits) {
  with_type(logits.dtype, [&]<class T>(T) {
    for_each_token(context, "kernels.balance_loss_input_gradient", logits.shape[0],
                   BalanceGradient<T>{balanced_tokens<T>(logits, choices, options), scale.as<float>(),
                                      balance_factor(logits.shape, options), d_logits.as<T>()});
  });
}

const InTable in_table[] = {
    {Backend::cuda, table::balance_loss, balance_loss},
    {Backend::cuda, table::balance_loss_input_gradient, balance_loss_input_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cuda
