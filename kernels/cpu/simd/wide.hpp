#pragma once

#include <cstdint>

#include "kernels/cpu/simd/vector.hpp"

#if defined(__AVX512F__) || defined(__FMA__)
#include <immintrin.h>
#endif

/// Vectors of one register, for loops that keep many of them or compare them: the compiler would split comparisons of wider vectors into
/// single lanes. The instruction set decides how many lanes there are and whether the multiply-add is fused. Sources of
/// millrace_tile_kernel() have sixteen lanes and a fused one, with the model of tiles as well. Only for such sources and those of
/// millrace_cpu_kernel().
namespace millrace::kernels::cpu {
namespace {

#if defined(__AVX512F__)
using Wide = f32x16;
MILLRACE_INLINE Wide multiply_add(Wide a, Wide b, Wide c) { return (Wide)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
MILLRACE_INLINE Wide broadcast(const float* p) { return (Wide)_mm512_set1_ps(*p); }
#elif defined(MILLRACE_MODEL_TILES)
using Wide = f32x16;
MILLRACE_INLINE_UNLESS_MODEL Wide multiply_add(Wide a, Wide b, Wide c) {
  for (int lane = 0; lane < 16; ++lane) c[lane] = __builtin_fmaf(a[lane], b[lane], c[lane]);
  return c;
}
MILLRACE_INLINE Wide broadcast(const float* p) { return splat(*p); }
#elif defined(__FMA__)
using Wide = float __attribute__((vector_size(32)));
MILLRACE_INLINE Wide multiply_add(Wide a, Wide b, Wide c) { return (Wide)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
MILLRACE_INLINE Wide broadcast(const float* p) { return (Wide)_mm256_set1_ps(*p); }
#else
using Wide = float __attribute__((vector_size(16)));
MILLRACE_INLINE Wide multiply_add(Wide a, Wide b, Wide c) { return a * b + c; }
MILLRACE_INLINE Wide broadcast(const float* p) { return Wide{p[0], p[0], p[0], p[0]}; }
#endif

constexpr std::int64_t kWide = sizeof(Wide) / sizeof(float);

using WideMask = std::int32_t __attribute__((vector_size(sizeof(Wide))));
using WideBits = std::uint32_t __attribute__((vector_size(sizeof(Wide))));

MILLRACE_INLINE Wide wide(float value) { return value - Wide{}; }
MILLRACE_INLINE Wide load_wide(const float* p) {
  Wide v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
MILLRACE_INLINE void store_wide(float* p, Wide v) { __builtin_memcpy(p, &v, sizeof v); }

/// The largest lane and the lanes' sum, as trees over halves.
using f32x4 = float __attribute__((vector_size(16)));
MILLRACE_INLINE float largest_lane(f32x4 v) {
  const f32x4 crossed = __builtin_shufflevector(v, v, 2, 3, 0, 1);
  const f32x4 two = v > crossed ? v : crossed;
  return two[0] > two[1] ? two[0] : two[1];
}
MILLRACE_INLINE float sum_of_lanes(f32x4 v) { return (v[0] + v[2]) + (v[1] + v[3]); }
#if defined(__FMA__) || defined(__AVX512F__) || defined(MILLRACE_MODEL_TILES)
using f32x8 = float __attribute__((vector_size(32)));
MILLRACE_INLINE float largest_lane(f32x8 v) {
  const f32x4 low = __builtin_shufflevector(v, v, 0, 1, 2, 3);
  const f32x4 high = __builtin_shufflevector(v, v, 4, 5, 6, 7);
  return largest_lane(low > high ? low : high);
}
MILLRACE_INLINE float sum_of_lanes(f32x8 v) {
  return sum_of_lanes(__builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7));
}
#endif
#if defined(__AVX512F__) || defined(MILLRACE_MODEL_TILES)
MILLRACE_INLINE float largest_lane(f32x16 v) {
  const f32x8 low = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7);
  const f32x8 high = __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
  return largest_lane(low > high ? low : high);
}
MILLRACE_INLINE float sum_of_lanes(f32x16 v) {
  return sum_of_lanes(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) + __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15));
}
#endif

/// Whether some lane is larger than this.
MILLRACE_INLINE bool any_lane_above(Wide v, float bound) {
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask((__m512)v, _mm512_set1_ps(bound), _CMP_GT_OQ) != 0;
#else
  return largest_lane(v) > bound;
#endif
}

}  // namespace
}  // namespace millrace::kernels::cpu
