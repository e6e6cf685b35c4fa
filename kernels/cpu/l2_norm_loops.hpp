#pragma once

#include <cstdint>

#include "kernels/base/dtype.hpp"
#include "kernels/cpu/simd/isa.hpp"

/// Loops of kernels/l2_norm.hpp over rows [begin, end) of `width` elements.
namespace millrace::kernels::cpu {

template <class T>
struct L2NormForward {
  const T* x;
  T* y;
  float* r;
  std::int64_t width;
  float epsilon;
};
template <class T>
struct L2NormInputGradient {
  const T* dy;
  const T* x;
  const float* r;
  T* dx;
  std::int64_t width;
};

MILLRACE_CPU_KERNEL(l2_norm_forward_f32, void(const L2NormForward<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(l2_norm_forward_bf16, void(const L2NormForward<BFloat16>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(l2_norm_input_gradient_f32, void(const L2NormInputGradient<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(l2_norm_input_gradient_bf16, void(const L2NormInputGradient<BFloat16>& at, std::int64_t begin, std::int64_t end));

}  // namespace millrace::kernels::cpu
