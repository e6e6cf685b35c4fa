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
  f64x8 sine[2], cosine[2];
  eight_sines(__builtin_convertvector(lower_half(angle), f64x8), sine[0], cosine[0]);
  eight_sines(__builtin_convertvector(upper_half(angle), f64x8), sine[1], cosine[1]);
  const auto narrow = [](const f64x8(&wide)[2]) __attribute__((always_inline)) {
    return both_halves(__builtin_convertvector(wide[0], f32x8), __builtin_convertvector(wide[1], f32x8));
  };
  return {narrow(sine), narrow(cosine)};
}

}  // namespace millrace::kernels::cpu
