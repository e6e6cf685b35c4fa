#pragma once

#include <cstdint>

#include "kernels/base/activation.hpp"
#include "kernels/base/dtype.hpp"
#include "kernels/cpu/simd/isa.hpp"

/// Loops of kernels/activation.hpp over elements [begin, end).
namespace millrace::kernels::cpu {

/// The activation, and what its learned numbers multiply it by: a of prelu; p and n of xielu.
struct Curve {
  Activation activation;
  float coefficients[max_activation_parameters];
};

template <class T>
struct ActivationForward {
  Curve curve;
  const T* x;
  T* y;
};
template <class T>
struct ActivationGradient {
  Curve curve;
  const T* dy;
  const T* x;
  T* dx;
};
template <class T>
struct GluForward {
  Curve curve;
  const T* gate;
  const T* up;
  T* y;
};
template <class T>
struct GluGradient {
  Curve curve;
  const T* dy;
  const T* gate;
  const T* up;
  T* d_gate;
  T* d_up;
};

/// The operands of activation_parameter_gradient(); up may be null.
template <class T>
struct ParameterTerms {
  Activation activation;
  const T* dy;
  const T* x;
  const T* up;
};

MILLRACE_CPU_KERNEL(activation_forward_f32, void(const ActivationForward<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(activation_forward_bf16, void(const ActivationForward<BFloat16>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(activation_gradient_f32, void(const ActivationGradient<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(activation_gradient_bf16, void(const ActivationGradient<BFloat16>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(glu_forward_f32, void(const GluForward<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(glu_forward_bf16, void(const GluForward<BFloat16>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(glu_gradient_f32, void(const GluGradient<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(glu_gradient_bf16, void(const GluGradient<BFloat16>& at, std::int64_t begin, std::int64_t end));

/// sums[i] = the sum of the i-th learned number's terms over [begin, end), less the derivative of its coefficient.
MILLRACE_CPU_KERNEL(activation_terms_f32, void(const ParameterTerms<float>& at, std::int64_t begin, std::int64_t end, double* sums));
MILLRACE_CPU_KERNEL(activation_terms_bf16, void(const ParameterTerms<BFloat16>& at, std::int64_t begin, std::int64_t end, double* sums));

}  // namespace millrace::kernels::cpu
