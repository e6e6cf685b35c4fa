#pragma once

#include <cstdint>

#include "kernels/cpu/simd/vector.hpp"

/// Sines and cosines of sixteen angles. Only for sources of millrace_cpu_kernel().
namespace millrace::kernels::cpu {

struct Sines {
  f32x16 sine, cosine;
};

inline constexpr float kFarthestAngle = 0x1p31F;

/// Sine and cosine of eight fp32 angles in fp64, error below 2⁻³⁴: x = n·π/2 + r with |r| <= π/4, polynomials for both in r²
/// (interpolated at Chebyshev's points), exchanged and negated according to the last two bits of n. π/2 is split into three
/// parts; the products of n with the first two are exact.
MILLRACE_INLINE void eight_sines(f64x8 x, f64x8& sine, f64x8& cosine) {
  using i64x8 = std::int64_t __attribute__((vector_size(64)));
  const f64x8 magic = 0x1.8p52 - f64x8{};  // the sum's low bits are the rounded integer
  const f64x8 shifted = x * 0x1.45f306dc9c883p-1 + magic;
  const f64x8 n = shifted - magic;
  const f64x8 r = ((x - n * 0x1.921fbp0) - n * 0x1.5110bp-22) - n * 0x1.18469898cc517p-44;
  const f64x8 z = r * r;
  f64x8 odd = z * 0x1.6dbe0838a06e9p-19 - 0x1.a013a793b98cep-13;
  odd = odd * z + 0x1.11110def2e1c9p-7;
  odd = odd * z - 0x1.555555545e0acp-3;
  odd = odd * z * r + r;
  f64x8 even = z * -0x1.25244e23e6e3ap-22 + 0x1.a015c47d920acp-16;
  even = even * z - 0x1.6c16bf54e7232p-10;
  even = even * z + 0x1.5555555502cf4p-5;
  even = even * (z * z) + (1.0 - 0.5 * z);
  const i64x8 quadrant = (i64x8)shifted;
  const i64x8 exchange = -(quadrant & 1);
  const i64x8 difference = ((i64x8)odd ^ (i64x8)even) & exchange;
  sine = (f64x8)((i64x8)odd ^ difference ^ ((quadrant & 2) << 62));
  cosine = (f64x8)((i64x8)even ^ difference ^ (((quadrant + 1) & 2) << 62));
}

/// For |angle| <= kFarthestAngle within 0.5003 ulp of the exact sine and cosine of the fp32 angle: one or two of 10⁵ numbers are
/// not the nearest. NaN and ∞ give NaN; results beyond kFarthestAngle are meaningless. Uses no fused multiply-add, so every
/// instruction set gives the same bits.
MILLRACE_INLINE Sines sines_of(f32x16 angle) {
  using f32x8 = float __attribute__((vector_size(32)));
  f32x8 half[2];
  __builtin_memcpy(half, &angle, sizeof half);
  f32x8 sine[2], cosine[2];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    f64x8 s, c;
    eight_sines(__builtin_convertvector(half[i], f64x8), s, c);
    sine[i] = __builtin_convertvector(s, f32x8);
    cosine[i] = __builtin_convertvector(c, f32x8);
  }
  Sines result;
  __builtin_memcpy(&result.sine, sine, sizeof sine);
  __builtin_memcpy(&result.cosine, cosine, sizeof cosine);
  return result;
}

}  // namespace millrace::kernels::cpu
