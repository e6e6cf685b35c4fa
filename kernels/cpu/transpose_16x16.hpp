#pragma once

#include "kernels/cpu/vector.hpp"

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

/// row[i][j] becomes row[j][i].
MILLRACE_INLINE void transpose_16x16(f32x16 (&row)[16]) {
  exchange<1>(row);
  exchange<2>(row);
  exchange<4>(row);
  exchange<8>(row);
}

}  // namespace millrace::kernels::cpu
