#pragma once

#include <cstdint>

#include "kernels/base/dtype.hpp"
#include "kernels/cpu/isa.hpp"

/// Loops of kernels/swiglu.hpp over elements [begin, end).
namespace millrace::kernels::cpu {

template <class T>
struct SwigluForward {
  const T* gate;
  const T* up;
  T* y;
};
template <class T>
struct SwigluGradient {
  const T* dy;
  const T* gate;
  const T* up;
  T* d_gate;
  T* d_up;
};

MILLRACE_CPU_KERNEL(swiglu_forward_f32, void(const SwigluForward<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(swiglu_forward_bf16, void(const SwigluForward<BFloat16>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(swiglu_gradient_f32, void(const SwigluGradient<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(swiglu_gradient_bf16, void(const SwigluGradient<BFloat16>& at, std::int64_t begin, std::int64_t end));

}  // namespace millrace::kernels::cpu
