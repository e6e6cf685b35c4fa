#pragma once

#include "kernels/cpu/simd/lanes.hpp"

/// The softmax over a router's logits of one token. Only for sources of millrace_cpu_kernel().
namespace millrace::kernels::cpu {

/// Sixteen logits; behind the last of them −∞, which is never the largest and adds nothing.
template <class T>
MILLRACE_INLINE f32x16 load_logits(const T* logits, std::int64_t left) {
  if (left >= 16) return load(logits);
  float lane[16];
  store(lane, load(logits, left));
  for (std::int64_t i = left; i < 16; ++i) lane[i] = -__builtin_inff();
  return load(lane);
}

/// The largest logit, and the sum of exp(logit − maximum).
struct SoftmaxRow {
  float maximum, sum;
};
template <class T>
MILLRACE_INLINE SoftmaxRow softmax_row(const T* logits, std::int64_t experts) {
  f32x16 largest = splat(-__builtin_inff());
  for (std::int64_t e = 0; e < experts; e += 16) largest = maximum(load_logits(logits + e, experts - e), largest);
  const float top = maximum_lane(largest);
  f32x16 sums{};
  for (std::int64_t e = 0; e < experts; e += 16) sums += exponential(load_logits(logits + e, experts - e) - top);
  return {top, sum_lanes(sums)};
}

}  // namespace millrace::kernels::cpu
