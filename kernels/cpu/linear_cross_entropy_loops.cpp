#include "kernels/cpu/linear_cross_entropy_loops.hpp"

#include "kernels/cpu/vector.hpp"

namespace millrace::kernels::cpu::MILLRACE_ISA {
namespace {

/// A short tail with the lanes beyond it at −∞: they are no maximum and add nothing.
MILLRACE_INLINE f32x16 load_logits(const float* logits, std::int64_t count) {
  float lane[16];
  for (std::int64_t i = 0; i < 16; ++i) lane[i] = i < count ? logits[i] : -__builtin_inff();
  return load(lane);
}

}  // namespace

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
  float at_target = 0;
  if (row.target >= 0) at_target = g * (coefficient * exponential(splat(logits[row.target] - lse))[0] - 1.0F);
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const f32x16 dl = g * (coefficient * exponential(load(logits + i) - lse));
    if (narrow != nullptr)
      store(narrow + i, dl);
    else
      store(logits + i, dl);
  }
  if (const std::int64_t rest = count - i; rest > 0) {
    const f32x16 dl = g * (coefficient * exponential(load(logits + i, rest) - lse));
    if (narrow != nullptr)
      store(narrow + i, dl, rest);
    else
      store(logits + i, dl, rest);
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
