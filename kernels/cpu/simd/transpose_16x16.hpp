#pragma once

#include "kernels/cpu/simd/vector.hpp"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

/// Transposes 16 x 16 fp32 in registers. Only for sources of millrace_cpu_kernel().
namespace millrace::kernels::cpu {

/// Picks lanes from a (0 to 15) and b (16 to 31).
MILLRACE_INLINE f32x16 shuffle(f32x16 a, f32x16 b, i32x16 lanes) {
#ifdef __clang__  // which requires constant lanes; it is only used for fuzzing
  f32x16 result;
  for (int lane = 0; lane < 16; ++lane) result[lane] = lanes[lane] < 16 ? a[lanes[lane]] : b[lanes[lane] - 16];
  return result;
#else
  return __builtin_shuffle(a, b, lanes);
#endif
}

/// One stage of a butterfly: exchanges the off-diagonal blocks of Step lanes between rows i and i + Step.
template <int Step>
MILLRACE_INLINE void exchange(f32x16 (&row)[16]) {
  i32x16 upper, lower;
  for (int lane = 0; lane < 16; ++lane) {
    const bool high = (lane & Step) != 0;
    upper[lane] = high ? 16 + lane - Step : lane;
    lower[lane] = high ? 16 + lane : lane + Step;
  }
  for (int i = 0; i < 16; ++i) {
    if ((i & Step) != 0) continue;
    const f32x16 a = row[i], b = row[i + Step];
    row[i] = shuffle(a, b, upper);
    row[i + Step] = shuffle(a, b, lower);
  }
}

#if defined(__AVX2__) && !defined(__AVX512F__)

/// Transposes 8 x 8: lines `from` floats apart become lines `to` floats apart.
MILLRACE_INLINE void transpose_8x8(const float* in, std::int64_t from, float* out, std::int64_t to) {
  __m256 line[8], pair[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) line[i] = _mm256_loadu_ps(in + i * from);
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    pair[i] = _mm256_unpacklo_ps(line[i], line[i + 1]);
    pair[i + 1] = _mm256_unpackhi_ps(line[i], line[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4)
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      line[i + 2 * j] = _mm256_shuffle_ps(pair[i + j], pair[i + j + 2], 0x44);
      line[i + 2 * j + 1] = _mm256_shuffle_ps(pair[i + j], pair[i + j + 2], 0xee);
    }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(out + i * to, _mm256_permute2f128_ps(line[i], line[i + 4], 0x20));
    _mm256_storeu_ps(out + (i + 4) * to, _mm256_permute2f128_ps(line[i], line[i + 4], 0x31));
  }
}

/// row[i][j] becomes row[j][i]. Sixteen registers hold a quarter at a time; the shuffles of wider vectors that GCC splits take ten times
/// as long.
MILLRACE_INLINE void transpose_16x16(f32x16 (&row)[16]) {
  f32x16 turned[16];
  const auto* in = reinterpret_cast<const float*>(row);
  auto* out = reinterpret_cast<float*>(turned);
  for (int i = 0; i < 16; i += 8)
    for (int j = 0; j < 16; j += 8) transpose_8x8(in + 16 * i + j, 16, out + 16 * j + i, 16);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) row[i] = turned[i];
}

#else

/// row[i][j] becomes row[j][i].
MILLRACE_INLINE_UNLESS_MODEL void transpose_16x16(f32x16 (&row)[16]) {
  exchange<1>(row);
  exchange<2>(row);
  exchange<4>(row);
  exchange<8>(row);
}

#endif

/// Transposes 16 x 16: lines `from` floats apart become lines `to` floats apart.
MILLRACE_INLINE void transpose_16x16(const float* in, std::int64_t from, float* out, std::int64_t to) {
#if defined(__AVX2__) && !defined(__AVX512F__)
  for (int i = 0; i < 16; i += 8)
    for (int j = 0; j < 16; j += 8) transpose_8x8(in + i * from + j, from, out + j * to + i, to);
#else
  f32x16 row[16];
#pragma GCC unroll 16
  for (std::int64_t i = 0; i < 16; ++i) row[i] = load(in + i * from);
  transpose_16x16(row);
#pragma GCC unroll 16
  for (std::int64_t i = 0; i < 16; ++i) store(out + i * to, row[i]);
#endif
}

}  // namespace millrace::kernels::cpu
