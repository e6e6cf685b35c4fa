#pragma once

#include <cstdint>

#include "kernels/base/clamped_glu_options.hpp"
#include "kernels/base/dtype.hpp"
#include "kernels/cpu/simd/isa.hpp"

/// Loops of kernels/clamped_glu.hpp over elements [begin, end).
namespace millrace::kernels::cpu {

template <class T>
struct ClampedGluForward {
  ClampedGluOptions options;
  const T* gate;
  const T* up;
  T* y;
};
template <class T>
struct ClampedGluGradient {
  ClampedGluOptions options;
  const T* dy;
  const T* gate;
  const T* up;
  T* d_gate;
  T* d_up;
};

MILLRACE_CPU_KERNEL(clamped_glu_forward_f32, void(const ClampedGluForward<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(clamped_glu_forward_bf16, void(const ClampedGluForward<BFloat16>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(clamped_glu_gradient_f32, void(const ClampedGluGradient<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(clamped_glu_gradient_bf16, void(const ClampedGluGradient<BFloat16>& at, std::int64_t begin, std::int64_t end));

}  // namespace millrace::kernels::cpu
