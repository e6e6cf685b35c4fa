#pragma once

#include <cstdint>

#include "kernels/base/dtype.hpp"
#include "kernels/cpu/simd/isa.hpp"

/// Loops of kernels/bias.hpp: over rows [begin, end) of `width` elements; the weight gradient over columns [begin, end).
namespace millrace::kernels::cpu {

template <class T>
struct BiasForward {
  const T* x;
  const float* b;
  T* y;
  std::int64_t width;
};
template <class T>
struct BiasWeightGradient {
  const T* dy;
  float* db;
  std::int64_t rows;
  std::int64_t width;
};

MILLRACE_CPU_KERNEL(bias_forward_f32, void(const BiasForward<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(bias_forward_bf16, void(const BiasForward<BFloat16>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(bias_weight_gradient_f32, void(const BiasWeightGradient<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(bias_weight_gradient_bf16, void(const BiasWeightGradient<BFloat16>& at, std::int64_t begin, std::int64_t end));

}  // namespace millrace::kernels::cpu
