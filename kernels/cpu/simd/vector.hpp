#pragma once

#include <cstdint>

#include "kernels/base/dtype.hpp"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

/// Sixteen lanes for every instruction set: the compiler splits them if registers are narrower, so the order of every sum is the
/// same everywhere. Only for sources of millrace_cpu_kernel(); all functions are inlined (see isa.hpp). Elements beyond a
/// multiple of 16 are handled with the `count` forms.
namespace millrace::kernels::cpu {

using f32x16 = float __attribute__((vector_size(64)));
using i32x16 = std::int32_t __attribute__((vector_size(64)));
using u32x16 = std::uint32_t __attribute__((vector_size(64)));
using u16x16 = std::uint16_t __attribute__((vector_size(32)));
using f64x8 = double __attribute__((vector_size(64)));

#define MILLRACE_INLINE [[gnu::always_inline, maybe_unused]] static inline
/// The same for larger functions, but not in the model of tile registers (gemm/tile_model.hpp): without vectors of sixteen lanes they would
/// take very long to compile there, and nothing needs it to be fast.
#if defined(MILLRACE_MODEL_TILES)
#define MILLRACE_INLINE_UNLESS_MODEL [[gnu::noinline, maybe_unused]] static
#else
#define MILLRACE_INLINE_UNLESS_MODEL MILLRACE_INLINE
#endif

/// std::min may be compiled out of line, which isa.hpp forbids.
MILLRACE_INLINE std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

MILLRACE_INLINE f32x16 splat(float value) { return value - f32x16{}; }

MILLRACE_INLINE f32x16 load(const float* p) {
  f32x16 v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
MILLRACE_INLINE f32x16 load(const BFloat16* p) {
  u16x16 half;
  __builtin_memcpy(&half, p, sizeof half);
  const u32x16 bits = __builtin_convertvector(half, u32x16) << 16;
  return (f32x16)bits;
}
MILLRACE_INLINE void store(float* p, f32x16 v) { __builtin_memcpy(p, &v, sizeof v); }

/// Stores a whole cache line at p (its start), bypassing the caches if the processor can: a line that is not read soon need not
/// be fetched from memory to be overwritten. Call settle_streams() before another thread reads it.
MILLRACE_INLINE void stream_line(float* p, f32x16 v) {
#if defined(__AVX512F__)
  _mm512_stream_ps(p, (__m512)v);
#elif defined(__SSE2__)
  __m128 part[4];
  __builtin_memcpy(part, &v, sizeof v);
  for (int i = 0; i < 4; ++i) _mm_stream_ps(p + 4 * i, part[i]);
#else
  store(p, v);
#endif
}
MILLRACE_INLINE void settle_streams() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

/// Round to nearest, ties to even; NaN stays NaN: the bits of to_bfloat16.
MILLRACE_INLINE u32x16 bfloat16_bits(f32x16 v) {
  const u32x16 bits = (u32x16)v;
  const u32x16 rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const u32x16 quiet = (bits >> 16) | 0x40U;
  const u32x16 not_a_number = (u32x16)((0x7f800000 - (i32x16)(bits & 0x7fffffffU)) >> 31);  // sign bit of it: all ones or none
  return (not_a_number & quiet) | (~not_a_number & rounded);
}
MILLRACE_INLINE void store(BFloat16* p, f32x16 v) {
  const u16x16 half = __builtin_convertvector(bfloat16_bits(v), u16x16);
  __builtin_memcpy(p, &half, sizeof half);
}
/// The fp32 value of v rounded to bf16.
MILLRACE_INLINE f32x16 round_to_bfloat16(f32x16 v) { return (f32x16)(bfloat16_bits(v) << 16); }

/// The first `count` (0 < count < 16) elements; the other lanes are zero.
template <class T>
MILLRACE_INLINE f32x16 load(const T* p, std::int64_t count) {
  alignas(64) T lanes[16] = {};
  __builtin_memcpy(lanes, p, static_cast<std::size_t>(count) * sizeof(T));
  return load(lanes);
}
template <class T>
MILLRACE_INLINE void store(T* p, f32x16 v, std::int64_t count) {
  alignas(64) T lanes[16];
  store(lanes, v);
  __builtin_memcpy(p, lanes, static_cast<std::size_t>(count) * sizeof(T));
}

/// Sixteen lanes as registers of the instruction set. GCC splits comparisons of wider vectors into single lanes, so comparisons
/// use these.
#if defined(__AVX512F__)
using Register = f32x16;
#elif defined(__AVX2__)
using Register = float __attribute__((vector_size(32)));
#else
using Register = float __attribute__((vector_size(16)));
#endif
struct Registers {
  Register part[sizeof(f32x16) / sizeof(Register)];
};
template <class Function>
MILLRACE_INLINE f32x16 by_registers(f32x16 v, Function&& function) {
  auto all = __builtin_bit_cast(Registers, v);
#pragma GCC unroll 4
  for (Register& part : all.part) part = function(part);
  return __builtin_bit_cast(f32x16, all);
}

MILLRACE_INLINE f32x16 maximum(f32x16 a, f32x16 b) {
  auto left = __builtin_bit_cast(Registers, a);
  const auto right = __builtin_bit_cast(Registers, b);
#pragma GCC unroll 4
  for (std::size_t i = 0; i < sizeof(f32x16) / sizeof(Register); ++i)
    left.part[i] = left.part[i] > right.part[i] ? left.part[i] : right.part[i];
  return __builtin_bit_cast(f32x16, left);
}

/// Lanes added as a tree: 8 + 8, 4 + 4, 2 + 2, 1 + 1.
MILLRACE_INLINE float sum_lanes(f32x16 v) {
  float lane[16];
  __builtin_memcpy(lane, &v, sizeof v);
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lane[i] = lane[i] + lane[i + half];
  return lane[0];
}
/// The same: 4 + 4, 2 + 2, 1 + 1.
MILLRACE_INLINE double sum_lanes(f64x8 v) {
  double lane[8];
  __builtin_memcpy(lane, &v, sizeof v);
  for (int half = 4; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}
MILLRACE_INLINE float maximum_lane(f32x16 v) {
  float lane[16];
  __builtin_memcpy(lane, &v, sizeof v);
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lane[i] = lane[i] > lane[i + half] ? lane[i] : lane[i + half];
  return lane[0];
}

/// eˣ within 2 ulp: x = n·ln 2 + r, a polynomial for eʳ (Cephes expf), times 2ⁿ in two halves so that the ends of the range come out right.
/// −∞ gives 0, overflow ∞, NaN stays NaN. No fused multiply-add, so every instruction set gives the same bits.
template <class V>
MILLRACE_INLINE V exponential_of(V x) {
  using Integers = decltype(x < x);
  x = x < -104.0F ? V{} - 104.0F : x;
  x = x > 89.0F ? V{} + 89.0F : x;
  const V magic = V{} + 12582912.0F;  // 1.5·2²³: the sum's low bits are the rounded integer
  const V shifted = x * 1.44269504088896341F + magic;
  const V n = shifted - magic;
  const Integers exponent = (Integers)shifted - (Integers)magic;
  const V r = (x - n * 0.693359375F) - n * -2.12194440e-4F;
  V p = r * 1.9875691500e-4F + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r + 1.0F;
  const Integers low = exponent >> 1;
  const Integers high = exponent - low;
  return p * (V)((low + 127) << 23) * (V)((high + 127) << 23);
}
MILLRACE_INLINE f32x16 exponential(f32x16 x) {
  return by_registers(
      x, [](Register v) __attribute__((always_inline)) { return exponential_of(v); });
}

MILLRACE_INLINE f32x16 sigmoid(f32x16 x) { return 1.0F / (1.0F + exponential(-x)); }

/// tanh x within 4 ulp: a polynomial below 0.625 (Cephes tanhf), above it 1 − 2/(e²ˣ + 1) by `exponential_of`, a function of V. NaN stays
/// NaN.
template <class V, class Exponential>
MILLRACE_INLINE V hyperbolic_tangent(V x, Exponential exponential_of) {
  const V z = x * x;
  V p = z * -5.70498872745e-3F + 2.06390887954e-2F;
  p = p * z - 5.37397155531e-2F;
  p = p * z + 1.33314422036e-1F;
  p = p * z - 3.33332819422e-1F;
  const V small = p * z * x + x;
  const V size = x < 0.0F ? -x : x;
  const V bounded = size > 10.0F ? size * 0.0F + 10.0F : size;  // beyond it tanh is 1
  const V large = 1.0F - 2.0F / (exponential_of(bounded * 2.0F) + 1.0F);
  return size >= 0.625F ? (x < 0.0F ? -large : large) : small;
}
MILLRACE_INLINE f32x16 hyperbolic_tangent(f32x16 x) {
  const auto exponential = [](Register v) __attribute__((always_inline)) { return exponential_of(v); };
  return by_registers(
      x, [&](Register v) __attribute__((always_inline)) { return hyperbolic_tangent(v, exponential); });
}

}  // namespace millrace::kernels::cpu
