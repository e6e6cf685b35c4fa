#pragma once

#include <cstdint>

#include "kernels/base/dtype.hpp"
#include "kernels/base/route_options.hpp"
#include "kernels/cpu/simd/isa.hpp"

/// Loops of kernels/route.hpp over tokens [begin, end), each with the logits of `count` experts. `bias` is null unless options.bias says
/// that there is one.
namespace millrace::kernels::cpu {

template <class T>
struct RouteForward {
  const T* logits;
  const float* bias;
  float* weights;
  std::int32_t* experts;
  std::int64_t count;
  RouteOptions options;
};
template <class T>
struct RouteGradient {
  const float* d_weights;
  const T* logits;
  const float* bias;
  const std::int32_t* experts;
  T* d_logits;    // of the input gradient
  float* d_bias;  // of the bias gradient
  std::int64_t count;
  RouteOptions options;
};

MILLRACE_CPU_KERNEL(route_forward_f32, void(const RouteForward<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(route_forward_bf16, void(const RouteForward<BFloat16>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(route_input_gradient_f32, void(const RouteGradient<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(route_input_gradient_bf16, void(const RouteGradient<BFloat16>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(route_bias_gradient_f32, void(const RouteGradient<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(route_bias_gradient_bf16, void(const RouteGradient<BFloat16>& at, std::int64_t begin, std::int64_t end));

}  // namespace millrace::kernels::cpu
