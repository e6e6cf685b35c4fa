#pragma once

#include "kernels/cpu/simd/vector.hpp"

/// The error function on sixteen lanes. Only for sources of millrace_cpu_kernel(), like kernels/cpu/simd/vector.hpp.
namespace millrace::kernels::cpu {

/// The error function's parts (Cephes erff and erfcf): erf x for |x| < 1 within 2 ulp, a polynomial of x².
template <class V>
MILLRACE_INLINE V error_function_near(V x) {
  const V z = x * x;
  V p = z * 7.853861353153693E-5F - 8.010193625184903E-4F;
  p = p * z + 5.188327685732524E-3F;
  p = p * z - 2.685381193529856E-2F;
  p = p * z + 1.128358514861418E-1F;
  p = p * z - 3.761262582423300E-1F;
  p = p * z + 1.128379165726710E+0F;
  return x * p;
}
/// 1 − erf x for x >= 1, computed as e^(−x²)/x times a polynomial of 1/x²; from 10.5 on it is 0.
template <class V>
MILLRACE_INLINE V error_function_tail(V x) {
  x = x > 10.5F ? V{} + 10.5F : x;  // where the exponential is 0
  const V q = 1.0F / x, y = q * q;
  V near = y * 2.326819970068386E-2F - 1.387039388740657E-1F;
  near = near * y + 3.687424674597105E-1F;
  near = near * y - 5.824733027278666E-1F;
  near = near * y + 6.210004621745983E-1F;
  near = near * y - 4.944515323274145E-1F;
  near = near * y + 3.404879937665872E-1F;
  near = near * y - 2.741127028184656E-1F;
  near = near * y + 5.638259427386472E-1F;
  V far = y * -1.047766399936249E+1F + 1.297719955372516E+1F;
  far = far * y - 7.495518717768503E+0F;
  far = far * y + 2.921019019210786E+0F;
  far = far * y - 1.015265279202700E+0F;
  far = far * y + 4.218463358204948E-1F;
  far = far * y - 2.820767439740514E-1F;
  far = far * y + 5.641895067754075E-1F;
  // x² is split into two parts, because the exponential would multiply the rounding error of x².
  const V high = (V)((decltype(x < x))x & ~0xfff);  // twelve bits: their square is exact
  const V low = x - high;
  return exponential_of(-high * high) * exponential_of(-(low * (x + high))) * q * (x < 2.0F ? near : far);
}
/// Φ(x) = ½·(1 + erf(x/√2)), the cumulative distribution function of the standard normal distribution, within about 8 ulp also
/// where it is small. NaN stays NaN.
MILLRACE_INLINE f32x16 normal_share(f32x16 x) {
  return by_registers(
      x, [](Register v) __attribute__((always_inline)) {
        const Register u = v * 0.707106781186547524F, size = u < 0.0F ? -u : u;
        const Register tail = 0.5F * error_function_tail(size < 1.0F ? Register{} + 1.0F : size);
        const Register beyond = u < 0.0F ? tail : 1.0F - tail;
        return size >= 1.0F ? beyond : 0.5F + 0.5F * error_function_near(u);
      });
}

}  // namespace millrace::kernels::cpu
