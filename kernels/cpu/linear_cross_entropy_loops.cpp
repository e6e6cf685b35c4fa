#include "kernels/cpu/linear_cross_entropy_loops.hpp"

#include "kernels/cpu/lanes.hpp"

namespace millrace::kernels::cpu::MILLRACE_ISA {
namespace {

/// A short tail with the lanes beyond it at −∞: they are no maximum and add nothing.
MILLRACE_INLINE f32x16 load_logits(const float* logits, std::int64_t count) {
  float lane[16];
  for (std::int64_t i = 0; i < 16; ++i) lane[i] = i < count ? logits[i] : -__builtin_inff();
  return load(lane);
}

}  // namespace

void cross_entropy_shape(float* logits, std::int64_t count, float scale, float soft_cap) {
  const float by_cap = soft_cap > 0 ? scale / soft_cap : 0.0F;
  for (std::int64_t i = 0; i < count; i += 16) {
    const f32x16 logit = load_lanes(logits + i, count - i);
    store_lanes(logits + i, soft_cap > 0 ? hyperbolic_tangent(logit * by_cap) * soft_cap : logit * scale, count - i);
  }
}

void cross_entropy_take(const float* logits, std::int64_t count, float& maximum, double& sum) {
  const std::int64_t whole = count / 16 * 16;
  f32x16 largest = splat(maximum);
  for (std::int64_t i = 0; i < whole; i += 16) largest = cpu::maximum(load(logits + i), largest);
  if (whole < count) largest = cpu::maximum(load_logits(logits + whole, count - whole), largest);
  const float top = maximum_lane(largest);
  f32x16 sums{};
  for (std::int64_t i = 0; i < whole; i += 16) sums += exponential(load(logits + i) - top);
  if (whole < count) sums += exponential(load_logits(logits + whole, count - whole) - top);
  // The first tile finds −∞ and 0: exp(−∞) is 0.
  sum = sum * static_cast<double>(exponential(splat(maximum - top))[0]) + static_cast<double>(sum_lanes(sums));
  maximum = top;
}

void cross_entropy_gradient(float* logits, std::int64_t count, const CrossEntropyRow& row, BFloat16* narrow) {
  const float lse = row.log_sum_exp, coefficient = row.coefficient, g = row.g;
  const float by_cap = row.soft_cap > 0 ? 1.0F / row.soft_cap : 0.0F;
  const bool shaped = row.soft_cap > 0 || row.scale != 1.0F;
  const auto slope = [&](f32x16 logit) __attribute__((always_inline)) {
    const f32x16 share = logit * by_cap;
    return row.scale * (1.0F - share * share);
  };
  float at_target = 0;
  if (row.target >= 0) {
    const f32x16 logit = splat(logits[row.target]);
    at_target = g * (coefficient * exponential(logit - lse)[0] - 1.0F);
    if (shaped) at_target *= slope(logit)[0];
  }
  for (std::int64_t i = 0; i < count; i += 16) {
    const f32x16 logit = load_lanes(logits + i, count - i);
    f32x16 dl = g * (coefficient * exponential(logit - lse));
    if (shaped) dl *= slope(logit);
    if (narrow != nullptr)
      store_lanes(narrow + i, dl, count - i);
    else
      store_lanes(logits + i, dl, count - i);
  }
  if (row.target < 0) return;
  if (narrow == nullptr) {
    logits[row.target] = at_target;
  } else {
    BFloat16 rounded[16];
    store(rounded, splat(at_target));
    narrow[row.target] = rounded[0];
  }
}

}  // namespace millrace::kernels::cpu::MILLRACE_ISA
