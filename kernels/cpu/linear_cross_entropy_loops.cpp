#include "kernels/cpu/linear_cross_entropy_loops.hpp"

#include "kernels/cpu/simd/lanes.hpp"

namespace millrace::kernels::cpu::MILLRACE_ISA {
namespace {

/// Loads a short remainder with −∞ in the lanes beyond it, which are then never the maximum and add nothing.
MILLRACE_INLINE f32x16 load_logits(const float* logits, std::int64_t count) {
  float lane[16];
  for (std::int64_t i = 0; i < 16; ++i) lane[i] = i < count ? logits[i] : -__builtin_inff();
  return load(lane);
}

MILLRACE_INLINE f32x16 slope_at(f32x16 logit, const CrossEntropySlope& slope) {
  if (slope.soft_cap <= 0) return splat(slope.scale);
  const f32x16 share = logit * (1.0F / slope.soft_cap);
  return slope.scale * (1.0F - share * share);
}

constexpr std::int64_t kStride = 16 * kTogether;

/// Maximum of a tile and of `maximum`.
MILLRACE_INLINE float largest_of(const float* logits, std::int64_t count, float maximum) {
  const std::int64_t whole = count / 16 * 16;
  f32x16 of_each[kTogether];  // so that a comparison need not wait for the previous one
  unrolled<kTogether>([&](int k) __attribute__((always_inline)) { of_each[k] = splat(maximum); });
  std::int64_t i = 0;
  for (; i + kStride <= whole; i += kStride)
    unrolled<kTogether>([&](int k) __attribute__((always_inline)) { of_each[k] = cpu::maximum(load(logits + i + 16 * k), of_each[k]); });
  f32x16 largest = of_each[0];
  unrolled<kTogether>([&](int k) __attribute__((always_inline)) { largest = cpu::maximum(of_each[k], largest); });
  for (; i < whole; i += 16) largest = cpu::maximum(load(logits + i), largest);
  if (whole < count) largest = cpu::maximum(load_logits(logits + whole, count - whole), largest);
  return maximum_lane(largest);
}

/// Stores the first `left` elements of sixteen after sixteen.
template <class T>
MILLRACE_INLINE void store_each(T* p, const f32x16 (&v)[kTogether], std::int64_t left) {
  unrolled<kTogether>([&](int k) __attribute__((always_inline)) {
    if (left > 16 * k) store_lanes(p + 16 * k, v[k], left - 16 * k);
  });
}

/// Updates the row's maximum to `top`, with a tile's exponentials in `sums`. Returns the factor that rescales earlier sums: 0 at
/// the first tile, whose earlier maximum is −∞.
MILLRACE_INLINE float take_sums(f32x16 sums, float top, float& maximum, double& sum) {
  const float kept = exponential(splat(maximum - top))[0];
  sum = sum * static_cast<double>(kept) + static_cast<double>(sum_lanes(sums));
  maximum = top;
  return kept;
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
  const float top = largest_of(logits, count, maximum);
  f32x16 sums{};
  std::int64_t i = 0;
  for (; i + kStride <= whole; i += kStride) {
    f32x16 weights[kTogether];
    load_all(logits + i, weights);
    unrolled<kTogether>([&](int k) __attribute__((always_inline)) { weights[k] -= top; });
    exponentials(weights);
    unrolled<kTogether>([&](int k) __attribute__((always_inline)) { sums += weights[k]; });
  }
  for (; i < whole; i += 16) sums += exponential(load(logits + i) - top);
  if (whole < count) sums += exponential(load_logits(logits + whole, count - whole) - top);
  take_sums(sums, top, maximum, sum);
}

float cross_entropy_weigh(float* logits, std::int64_t count, const CrossEntropySlope& slope, std::int64_t target, float& maximum,
                          double& sum, BFloat16* narrow) {
  const std::int64_t whole = count / 16 * 16;
  const float top = largest_of(logits, count, maximum);
  const bool shaped = slope.soft_cap > 0 || slope.scale != 1.0F;
  f32x16 sums{};
  const auto weigh = [&](f32x16 logit) __attribute__((always_inline)) {
    const f32x16 weight = exponential(logit - top);
    sums += weight;
    return shaped ? weight * slope_at(logit, slope) : weight;
  };
  std::int64_t i = 0;
  for (; i + kStride <= whole; i += kStride) {
    f32x16 logit[kTogether], weights[kTogether];
    load_all(logits + i, logit);
    unrolled<kTogether>([&](int k) __attribute__((always_inline)) { weights[k] = logit[k] - top; });
    exponentials(weights);
    unrolled<kTogether>([&](int k) __attribute__((always_inline)) {
      sums += weights[k];
      if (shaped) weights[k] *= slope_at(logit[k], slope);
    });
    if (narrow != nullptr)
      store_each(narrow + i, weights, kStride);
    else
      store_each(logits + i, weights, kStride);
  }
  for (; i < whole; i += 16) {
    const f32x16 weight = weigh(load(logits + i));
    if (narrow != nullptr)
      store(narrow + i, weight);
    else
      store(logits + i, weight);
  }
  if (whole < count) {
    // The lanes beyond the end have weight 0 times a slope that may be NaN, so they are not stored.
    const f32x16 weight = weigh(load_logits(logits + whole, count - whole));
    if (narrow != nullptr)
      store(narrow + whole, weight, count - whole);
    else
      store(logits + whole, weight, count - whole);
  }
  if (target >= 0 && narrow != nullptr) narrow[target] = BFloat16{};
  if (target >= 0 && narrow == nullptr) logits[target] = 0;
  return take_sums(sums, top, maximum, sum);
}

void cross_entropy_blend(float* row, std::int64_t count, const CrossEntropyBlend& blend) {
  for (std::int64_t i = 0; i < count; i += 16) {
    f32x16 result = load_lanes(row + i, count - i) * blend.by_row;
    if (blend.wide != nullptr || blend.narrow != nullptr) {
      f32x16 weights = blend.wide != nullptr ? load_lanes(blend.wide + i, count - i) : load_lanes(blend.narrow + i, count - i);
      if (blend.round) weights = round_to_bfloat16(weights);
      result += weights * blend.by_weights;
    }
    store_lanes(row + i, result, count - i);
  }
}

float cross_entropy_gradient(float* logits, std::int64_t count, const CrossEntropyRow& row, BFloat16* narrow) {
  const float lse = row.log_sum_exp, coefficient = row.coefficient, g = row.g;
  const bool shaped = row.slope.soft_cap > 0 || row.slope.scale != 1.0F;
  float at_target = 0;
  if (row.target >= 0) {
    const f32x16 logit = splat(logits[row.target]);
    at_target = g * (coefficient * exponential(logit - lse)[0] - 1.0F);
    if (shaped) at_target *= slope_at(logit, row.slope)[0];
  }
  for (std::int64_t i = 0; i < count; i += kStride) {
    f32x16 logit[kTogether], dl[kTogether];
    load_lanes(logits + i, logit, count - i);
    unrolled<kTogether>([&](int k) __attribute__((always_inline)) { dl[k] = logit[k] - lse; });
    exponentials(dl);
    unrolled<kTogether>([&](int k) __attribute__((always_inline)) { dl[k] = g * (coefficient * dl[k]); });
    if (shaped) unrolled<kTogether>([&](int k) __attribute__((always_inline)) { dl[k] *= slope_at(logit[k], row.slope); });
    if (narrow != nullptr)
      store_each(narrow + i, dl, count - i);
    else
      store_each(logits + i, dl, count - i);
  }
  if (row.target < 0) return 0;
  if (narrow == nullptr) {
    logits[row.target] = at_target;
  } else {
    BFloat16 rounded[16];
    store(rounded, splat(at_target));
    narrow[row.target] = rounded[0];
  }
  return at_target;
}

}  // namespace millrace::kernels::cpu::MILLRACE_ISA
