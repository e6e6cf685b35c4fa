#pragma once

#include <cstdint>

#include "kernels/base/activation.hpp"
#include "kernels/base/dtype.hpp"
#include "kernels/cpu/isa.hpp"

/// Loops of kernels/activation.hpp over elements [begin, end).
namespace millrace::kernels::cpu {

template <class T>
struct ActivationForward {
  Activation activation;
  const T* x;
  T* y;
};
template <class T>
struct ActivationGradient {
  Activation activation;
  const T* dy;
  const T* x;
  T* dx;
};
template <class T>
struct GluForward {
  Activation activation;
  const T* gate;
  const T* up;
  T* y;
};
template <class T>
struct GluGradient {
  Activation activation;
  const T* dy;
  const T* gate;
  const T* up;
  T* d_gate;
  T* d_up;
};

MILLRACE_CPU_KERNEL(activation_forward_f32, void(const ActivationForward<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(activation_forward_bf16, void(const ActivationForward<BFloat16>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(activation_gradient_f32, void(const ActivationGradient<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(activation_gradient_bf16, void(const ActivationGradient<BFloat16>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(glu_forward_f32, void(const GluForward<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(glu_forward_bf16, void(const GluForward<BFloat16>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(glu_gradient_f32, void(const GluGradient<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(glu_gradient_bf16, void(const GluGradient<BFloat16>& at, std::int64_t begin, std::int64_t end));

}  // namespace millrace::kernels::cpu
