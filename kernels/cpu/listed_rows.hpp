#pragma once

#include "kernels/cpu/simd/lanes.hpp"
#include "kernels/cpu/simd/transpose_16x16.hpp"
#include "kernels/cpu/tile_product.hpp"

/// Products with rows that a list picks, such as the keys of a key list. Arrays of a number per row have room for a multiple of 16. Only
/// for sources of millrace_cpu_kernel().
namespace millrace::kernels::cpu {

MILLRACE_INLINE std::int64_t whole_vectors(std::int64_t count) { return (count + 15) / 16 * 16; }

/// a · b + c, fused if the instruction set can.
MILLRACE_INLINE f32x16 fused(f32x16 a, f32x16 b, f32x16 c) {
  const auto left = __builtin_bit_cast(Registers, a), right = __builtin_bit_cast(Registers, b);
  auto sum = __builtin_bit_cast(Registers, c);
#pragma GCC unroll 4
  for (int i = 0; i < kRegisters; ++i) sum.part[i] = (Register)multiply_add((Wide)left.part[i], (Wide)right.part[i], (Wide)sum.part[i]);
  return __builtin_bit_cast(f32x16, sum);
}

/// max(x, 0); a NaN stays.
MILLRACE_INLINE f32x16 positive_part(f32x16 x) {
  return by_registers(
      x, [](Register v) __attribute__((always_inline)) { return v < 0.0F ? Register{} : v; });
}

/// Row i is the `width` numbers at first + list[i] · step.
template <class T>
struct ListedRows {
  const T* first;
  std::int64_t step, width;
  const std::int32_t* list;
  std::int64_t count;
  [[nodiscard, gnu::always_inline]] const T* row(std::int64_t i) const { return first + list[i] * step; }
};

/// to[0, width) = from · factor, then zeros to a multiple of 16.
template <class T>
MILLRACE_INLINE void widen(const T* from, std::int64_t width, float factor, float* to) {
  for (std::int64_t d = 0; d < width; d += 16) store(to + d, load_lanes(from + d, width - d) * factor);
}

/// The lanes of a · b over `width` features; a has zeros up to a multiple of 16.
template <class T>
MILLRACE_INLINE f32x16 dot_lanes(const float* a, const T* b, std::int64_t width) {
  f32x16 sum{};
  std::int64_t d = 0;
  for (; d + 16 <= width; d += 16) sum = fused(load(a + d), load(b + d), sum);
  if (d < width) sum = fused(load(a + d), load(b + d, width - d), sum);
  return sum;
}

/// to[i] = a · row i; behind the last row 0. Sixteen sums of lanes are added as a tree at once.
template <class T>
MILLRACE_INLINE void dots(const float* a, const ListedRows<T>& rows, float* to) {
  for (std::int64_t i = 0; i < rows.count; i += 16) {
    f32x16 lanes[16];
    for (std::int64_t j = 0; j < 16; ++j) lanes[j] = i + j < rows.count ? dot_lanes(a, rows.row(i + j), rows.width) : f32x16{};
    transpose_16x16(lanes);
#pragma GCC unroll 4
    for (int half = 8; half > 0; half /= 2)
#pragma GCC unroll 8
      for (int j = 0; j < half; ++j) lanes[j] += lanes[j + half];
    store(to + i, lanes[0]);
  }
}

template <int vectors, class T>
MILLRACE_INLINE void weighted_columns(const float* weights, const ListedRows<T>& rows, std::int64_t column, float* to) {
  f32x16 sum[vectors] = {};
  for (std::int64_t i = 0; i < rows.count; ++i) {
    const f32x16 weight = splat(weights[i]);
    const T* row = rows.row(i) + column;
#pragma GCC unroll 4
    for (int n = 0; n < vectors; ++n) sum[n] = fused(weight, load(row + 16 * n), sum[n]);
  }
#pragma GCC unroll 4
  for (int n = 0; n < vectors; ++n) store(to + column + 16 * n, sum[n]);
}

/// to[0, width) = Σ_i weights[i] · row i, in order; `to` has room for a multiple of 16.
template <class T>
MILLRACE_INLINE void weighted_sum(const float* weights, const ListedRows<T>& rows, float* to) {
  std::int64_t column = 0;
  for (; column + 64 <= rows.width; column += 64) weighted_columns<4>(weights, rows, column, to);
  for (; column + 16 <= rows.width; column += 16) weighted_columns<1>(weights, rows, column, to);
  if (column == rows.width) return;
  f32x16 sum{};
  for (std::int64_t i = 0; i < rows.count; ++i) sum = fused(splat(weights[i]), load(rows.row(i) + column, rows.width - column), sum);
  store(to + column, sum);
}

/// to[0, width) += weight · from, both with room for a multiple of 16.
MILLRACE_INLINE void add_scaled(float weight, const float* from, std::int64_t width, float* to) {
  const f32x16 factor = splat(weight);
  for (std::int64_t d = 0; d < width; d += 16) store(to + d, fused(factor, load(from + d), load(to + d)));
}

/// Stores `width` numbers times `factor`.
template <class T>
MILLRACE_INLINE void narrow(const float* from, std::int64_t width, float factor, T* to) {
  for (std::int64_t d = 0; d < width; d += 16) store_lanes(to + d, load(from + d) * factor, width - d);
}

/// The largest of `count` numbers, and the sum of exp(x − maximum), which replace the numbers; behind the last of them 0.
struct Exponentials {
  float maximum, sum;
};
MILLRACE_INLINE Exponentials exponentials(float* x, std::int64_t count) {
  const std::int64_t whole = whole_vectors(count);
  for (std::int64_t i = count; i < whole; ++i) x[i] = -__builtin_inff();
  f32x16 largest = splat(-__builtin_inff());
  for (std::int64_t i = 0; i < whole; i += 16) largest = maximum(load(x + i), largest);
  const float top = maximum_lane(largest);
  f32x16 sum{};
  for (std::int64_t i = 0; i < whole; i += 16) {
    const f32x16 each = exponential(load(x + i) - top);
    store(x + i, each);
    sum += each;
  }
  return {top, sum_lanes(sum)};
}

}  // namespace millrace::kernels::cpu
