#include "kernels/cpu/balance_loss_loops.hpp"

#include "kernels/cpu/softmax_row.hpp"

namespace millrace::kernels::cpu {
namespace {

/// Sixteen numbers of choices; behind the last of them 0.
MILLRACE_INLINE f32x16 load_choices(const std::int32_t* choices, std::int64_t left) {
  i32x16 number{};
  __builtin_memcpy(&number, choices, static_cast<std::size_t>(left < 16 ? left : 16) * sizeof(std::int32_t));
  return __builtin_convertvector(number, f32x16);
}

struct BalancedToken {
  SoftmaxRow softmax;
  float weighted;  // Σ choices · exp(logit − maximum)
};
template <class T>
MILLRACE_INLINE BalancedToken balanced_token(const T* logits, const std::int32_t* choices, std::int64_t experts) {
  const SoftmaxRow row = softmax_row(logits, experts);
  f32x16 weighted{};
  for (std::int64_t e = 0; e < experts; e += 16)
    weighted += exponential(load_logits(logits + e, experts - e) - row.maximum) * load_choices(choices + e, experts - e);
  return {row, sum_lanes(weighted)};
}

template <class T>
MILLRACE_INLINE void balance_terms(const BalancedTokens<T>& at, std::int64_t begin, std::int64_t end, double* terms) {
  for (std::int64_t t = begin; t < end; ++t) {
    const BalancedToken token = balanced_token(at.logits + t * at.experts, at.choices + t / at.sequence * at.experts, at.experts);
    terms[t - begin] = static_cast<double>(token.weighted) / static_cast<double>(token.softmax.sum);
  }
}

template <class T>
MILLRACE_INLINE void balance_gradient(const BalancedTokens<T>& at, std::int64_t begin, std::int64_t end, float factor, T* d_logits) {
  for (std::int64_t t = begin; t < end; ++t) {
    const T* logits = at.logits + t * at.experts;
    const std::int32_t* choices = at.choices + t / at.sequence * at.experts;
    const BalancedToken token = balanced_token(logits, choices, at.experts);
    const float mean = token.weighted / token.softmax.sum, by = factor / token.softmax.sum;
    for (std::int64_t e = 0; e < at.experts; e += 16) {
      const std::int64_t left = at.experts - e;
      const f32x16 weight = exponential(load_logits(logits + e, left) - token.softmax.maximum) * by;
      store_lanes(d_logits + t * at.experts + e, weight * (load_choices(choices + e, left) - mean), left);
    }
  }
}

}  // namespace

namespace MILLRACE_ISA {

void balance_terms_f32(const BalancedTokens<float>& at, std::int64_t begin, std::int64_t end, double* terms) {
  balance_terms(at, begin, end, terms);
}
void balance_terms_bf16(const BalancedTokens<BFloat16>& at, std::int64_t begin, std::int64_t end, double* terms) {
  balance_terms(at, begin, end, terms);
}
void balance_gradient_f32(const BalancedTokens<float>& at, std::int64_t begin, std::int64_t end, float factor, float* d_logits) {
  balance_gradient(at, begin, end, factor, d_logits);
}
void balance_gradient_bf16(const BalancedTokens<BFloat16>& at, std::int64_t begin, std::int64_t end, float factor, BFloat16* d_logits) {
  balance_gradient(at, begin, end, factor, d_logits);
}

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu
