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
using f32x8 = float __attribute__((vector_size(32)));
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

/// The mask of instructions whose forms without one make GCC 12 warn of their undefined operand.
inline constexpr unsigned short kAllLanes = 0xffff;

MILLRACE_INLINE f32x16 load(const float* p) {
  f32x16 v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
MILLRACE_INLINE f32x16 load(const BFloat16* p) {
#if defined(__AVX512F__)
  return (f32x16)((u32x16)_mm512_maskz_cvtepu16_epi32(kAllLanes, _mm256_loadu_si256((const __m256i_u*)p)) << 16);
#else
  u16x16 half;
  __builtin_memcpy(&half, p, sizeof half);
  const u32x16 bits = __builtin_convertvector(half, u32x16) << 16;
  return (f32x16)bits;
#endif
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

// These stay in registers; through memory, a load of 64 bytes would wait for two stores of 32.
MILLRACE_INLINE f32x8 lower_half(f32x16 v) { return __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7); }
MILLRACE_INLINE f32x8 upper_half(f32x16 v) { return __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15); }
MILLRACE_INLINE f32x16 both_halves(f32x8 lower, f32x8 upper) {
  return __builtin_shufflevector(lower, upper, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

/// Sixteen lanes as registers of the instruction set. GCC splits comparisons of wider vectors into single lanes, so comparisons
/// use these.
#if defined(__AVX512F__)
using Register = f32x16;
constexpr int kRegisters = 1;
#elif defined(__AVX2__)
using Register = float __attribute__((vector_size(32)));
constexpr int kRegisters = 2;
#else
using Register = float __attribute__((vector_size(16)));
constexpr int kRegisters = 4;
#endif
using RegisterBits = std::uint32_t __attribute__((vector_size(sizeof(Register))));
struct Registers {
  Register part[kRegisters];
};
static_assert(sizeof(Registers) == sizeof(f32x16));
MILLRACE_INLINE Registers split(f32x16 v) {
#if defined(__AVX2__) && !defined(__AVX512F__)
  return {{lower_half(v), upper_half(v)}};
#else
  return __builtin_bit_cast(Registers, v);
#endif
}
MILLRACE_INLINE f32x16 join(const Registers& all) {
#if defined(__AVX2__) && !defined(__AVX512F__)
  return both_halves(all.part[0], all.part[1]);
#else
  return __builtin_bit_cast(f32x16, all);
#endif
}
template <class Function>
MILLRACE_INLINE f32x16 by_registers(f32x16 v, Function&& function) {
  Registers all = split(v);
#pragma GCC unroll 4
  for (Register& part : all.part) part = function(part);
  return join(all);
}

/// Rounds to nearest, ties to even; NaN stays NaN. The upper halves of the lanes are the bits of to_bfloat16; the lower halves are
/// meaningless.
MILLRACE_INLINE u32x16 bfloat16_upper(f32x16 v) {
  return (u32x16)by_registers(
      v, [](Register part) __attribute__((always_inline)) {
        const auto bits = (RegisterBits)part;
        const RegisterBits rounded = bits + 0x7fffU + ((bits >> 16) & 1U);
        return (Register)(part == part ? rounded : bits | 0x400000U);
      });
}
/// The bits of to_bfloat16 in the lower halves of the lanes.
MILLRACE_INLINE u32x16 bfloat16_bits(f32x16 v) { return bfloat16_upper(v) >> 16; }
MILLRACE_INLINE void store(BFloat16* p, f32x16 v) {
  const u16x16 half = __builtin_convertvector(bfloat16_bits(v), u16x16);
  __builtin_memcpy(p, &half, sizeof half);
}
/// The fp32 value of v rounded to bf16.
MILLRACE_INLINE f32x16 round_to_bfloat16(f32x16 v) { return (f32x16)(bfloat16_upper(v) & 0xffff0000U); }

/// Several vectors of elements, for loops whose elements are independent of each other: of fp32 sixteen after sixteen; of bf16 the even and
/// the odd ones of thirty-two after thirty-two, each of which is one operation away from what is in memory.
template <int N>
MILLRACE_INLINE void load_all(const float* p, f32x16 (&v)[N]) {
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) v[i] = load(p + 16 * i);
}
template <int N>
MILLRACE_INLINE void load_all(const BFloat16* p, f32x16 (&v)[N]) {
#pragma GCC unroll 8
  for (int i = 0; i < N; i += 2) {
    u32x16 pairs;
    __builtin_memcpy(&pairs, p + 16 * i, sizeof pairs);
    v[i] = (f32x16)(pairs << 16);
    v[i + 1] = (f32x16)(pairs & 0xffff0000U);
  }
}
template <int N>
MILLRACE_INLINE void store_all(float* p, const f32x16 (&v)[N]) {
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) store(p + 16 * i, v[i]);
}
template <int N>
MILLRACE_INLINE void store_all(BFloat16* p, const f32x16 (&v)[N]) {
#pragma GCC unroll 8
  for (int i = 0; i < N; i += 2) {
    const u32x16 pairs = bfloat16_bits(v[i]) | (bfloat16_upper(v[i + 1]) & 0xffff0000U);
    __builtin_memcpy(p + 16 * i, &pairs, sizeof pairs);
  }
}

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

/// a > b ? a : b in each lane.
MILLRACE_INLINE f32x16 maximum(f32x16 a, f32x16 b) {
#if defined(__AVX512F__)
  return (f32x16)_mm512_maskz_max_ps(kAllLanes, (__m512)a, (__m512)b);
#else
  auto left = __builtin_bit_cast(Registers, a);
  const auto right = __builtin_bit_cast(Registers, b);
#pragma GCC unroll 4
  for (int i = 0; i < kRegisters; ++i) left.part[i] = left.part[i] > right.part[i] ? left.part[i] : right.part[i];
  return __builtin_bit_cast(f32x16, left);
#endif
}

/// Lanes added as a tree: 8 + 8, 4 + 4, 2 + 2, 1 + 1.
MILLRACE_INLINE float sum_lanes(f32x16 v) {
  const f32x8 eight = lower_half(v) + upper_half(v);
  const auto four = __builtin_shufflevector(eight, eight, 0, 1, 2, 3) + __builtin_shufflevector(eight, eight, 4, 5, 6, 7);
  return (four[0] + four[2]) + (four[1] + four[3]);
}
/// The same: 4 + 4, 2 + 2, 1 + 1.
MILLRACE_INLINE double sum_lanes(f64x8 v) {
  const auto four = __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7);
  return (four[0] + four[2]) + (four[1] + four[3]);
}
MILLRACE_INLINE float maximum_lane(f32x16 v) {
  float lane[16];
  __builtin_memcpy(lane, &v, sizeof v);
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lane[i] = lane[i] > lane[i + half] ? lane[i] : lane[i + half];
  return lane[0];
}

/// x limited to [least, most]; NaN stays NaN.
template <class V>
MILLRACE_INLINE V between(V x, float least, float most) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == sizeof(__m512)) {
    const __m512 above = _mm512_maskz_max_ps(kAllLanes, _mm512_set1_ps(least), (__m512)x);
    return (V)_mm512_maskz_min_ps(kAllLanes, _mm512_set1_ps(most), above);
  }
#endif
  x = x < least ? V{} + least : x;
  return x > most ? V{} + most : x;
}

/// p · 2ⁿ for an integer n, rounded once, for p near 1.
template <class V>
MILLRACE_INLINE V times_power(V p, V n) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == sizeof(__m512)) return (V)_mm512_maskz_scalef_ps(kAllLanes, (__m512)p, (__m512)n);
#endif
  using Integers = decltype(p < p);
  const V magic = V{} + 12582912.0F;
  const Integers exponent = (Integers)(n + magic) - (Integers)magic;
  const Integers low = exponent >> 1;  // two halves, since 2ⁿ may not be a number of its own
  const Integers high = exponent - low;
  return p * (V)((low + 127) << 23) * (V)((high + 127) << 23);
}

/// Calls step(i) for every i below N, as straight code.
template <int N, class Step>
MILLRACE_INLINE void unrolled(Step&& step) {
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) step(i);
}

/// The number of vectors that a loop gives to exponentials(): as many as the registers hold.
#if defined(__AVX512F__)
constexpr int kTogether = 8;
#elif defined(__AVX2__)
constexpr int kTogether = 4;
#else
constexpr int kTogether = 2;
#endif

/// eˣ within 2 ulp: x = n·ln 2 + r, a polynomial for eʳ (Cephes expf), times 2ⁿ. −∞ gives 0, overflow ∞, NaN stays NaN. No fused
/// multiply-add, so every instruction set gives the same bits. Several vectors are computed operation by operation: each operation waits
/// for the one before, and the processor looks ahead too few instructions to find those of the next vector by itself.
template <class V, int N>
MILLRACE_INLINE void exponentials_of(V (&x)[N]) {
  V n[N], r[N], p[N];
#define MILLRACE_STEP(...) unrolled<N>([&](int i) __attribute__((always_inline)) { __VA_ARGS__; })
  MILLRACE_STEP(x[i] = between(x[i], -104.0F, 89.0F));
  MILLRACE_STEP(n[i] = x[i] * 1.44269504088896341F + 12582912.0F);  // 1.5·2²³: the sum's low bits are the rounded integer
  MILLRACE_STEP(n[i] -= 12582912.0F);
  MILLRACE_STEP(r[i] = x[i] - n[i] * 0.693359375F);
  MILLRACE_STEP(r[i] -= n[i] * -2.12194440e-4F);
  MILLRACE_STEP(p[i] = r[i] * 1.9875691500e-4F + 1.3981999507e-3F);
  MILLRACE_STEP(p[i] = p[i] * r[i] + 8.3334519073e-3F);
  MILLRACE_STEP(p[i] = p[i] * r[i] + 4.1665795894e-2F);
  MILLRACE_STEP(p[i] = p[i] * r[i] + 1.6666665459e-1F);
  MILLRACE_STEP(p[i] = p[i] * r[i] + 5.0000001201e-1F);
  MILLRACE_STEP(p[i] = p[i] * (r[i] * r[i]) + r[i] + 1.0F);
  MILLRACE_STEP(x[i] = times_power(p[i], n[i]));
#undef MILLRACE_STEP
}
template <class V>
MILLRACE_INLINE V exponential_of(V x) {
  V one[1] = {x};
  exponentials_of(one);
  return one[0];
}
template <int N>
MILLRACE_INLINE void exponentials(f32x16 (&x)[N]) {
  Register part[N * kRegisters];
  __builtin_memcpy(part, x, sizeof x);
  exponentials_of(part);
  __builtin_memcpy(x, part, sizeof x);
}
MILLRACE_INLINE f32x16 exponential(f32x16 x) {
  f32x16 one[1] = {x};
  exponentials(one);
  return one[0];
}

template <int N>
MILLRACE_INLINE void sigmoids(f32x16 (&x)[N]) {
  unrolled<N>([&](int i) __attribute__((always_inline)) { x[i] = -x[i]; });
  exponentials(x);
  unrolled<N>([&](int i) __attribute__((always_inline)) { x[i] = 1.0F + x[i]; });
  unrolled<N>([&](int i) __attribute__((always_inline)) { x[i] = 1.0F / x[i]; });
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
  const V bounded = size > 10.0F ? V{} + 10.0F : size;  // beyond it tanh is 1
  const V large = 1.0F - 2.0F / (exponential_of(bounded * 2.0F) + 1.0F);
  return size >= 0.625F ? (x < 0.0F ? -large : large) : small;
}
MILLRACE_INLINE f32x16 hyperbolic_tangent(f32x16 x) {
  const auto exponential = [](Register v) __attribute__((always_inline)) { return exponential_of(v); };
  return by_registers(
      x, [&](Register v) __attribute__((always_inline)) { return hyperbolic_tangent(v, exponential); });
}

}  // namespace millrace::kernels::cpu
