#pragma once

#include "kernels/cpu/simd/vector.hpp"

/// Logarithms and exponentials near 1 and 0 on sixteen lanes. Only for sources of millrace_cpu_kernel(), as kernels/cpu/simd/vector.hpp.
namespace millrace::kernels::cpu {

/// log x of normal x > 0, within 2 ulp: x = m·2ⁿ with m in [√½, √2), a polynomial of m − 1 (Cephes logf), and n·log 2 in two parts.
template <class V>
MILLRACE_INLINE V logarithm_of(V x) {
  using Integers = decltype(x < x);
  const Integers bits = (Integers)x;
  V m = (V)((bits & 0x007fffff) | 0x3f000000);  // in [½, 1)
  const Integers small = m < 0.707106781186547524F;
  const V n = __builtin_convertvector((bits >> 23) - 126 + small, V);  // a true lane is −1
  m = small ? m + m - 1.0F : m - 1.0F;
  const V z = m * m;
  V p = m * 7.0376836292E-2F - 1.1514610310E-1F;
  p = p * m + 1.1676998740E-1F;
  p = p * m - 1.2420140846E-1F;
  p = p * m + 1.4249322787E-1F;
  p = p * m - 1.6668057665E-1F;
  p = p * m + 2.0000714765E-1F;
  p = p * m - 2.4999993993E-1F;
  p = p * m + 3.3333331174E-1F;
  p = p * m * z - n * 2.12194440e-4F - 0.5F * z;
  return m + p + n * 0.693359375F;
}

/// log(1 + u) of 0 <= u < 2¹²⁷ within some 4 ulp: what 1 + u has lost of u is put back.
template <class V>
MILLRACE_INLINE V logarithm_of_one_plus(V u) {
  const V w = 1.0F + u;
  return logarithm_of(w) + (u - (w - 1.0F)) / w;
}

/// eˣ − 1 within some 4 ulp: near 0 the polynomial of exponential_of() without its 1.
template <class V>
MILLRACE_INLINE V exponential_minus_one(V x) {
  V p = x * 1.9875691500e-4F + 1.3981999507e-3F;
  p = p * x + 8.3334519073e-3F;
  p = p * x + 4.1665795894e-2F;
  p = p * x + 1.6666665459e-1F;
  p = p * x + 5.0000001201e-1F;
  const V size = x < 0.0F ? -x : x;
  return size < 0.34F ? p * (x * x) + x : exponential_of(x) - 1.0F;
}

}  // namespace millrace::kernels::cpu
