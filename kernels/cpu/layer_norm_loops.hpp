#pragma once

#include <cstdint>

#include "kernels/base/dtype.hpp"
#include "kernels/cpu/simd/isa.hpp"

/// Loops of kernels/layer_norm.hpp over rows [begin, end) of `width` elements; the weight gradient over columns [begin, end).
namespace millrace::kernels::cpu {

template <class T>
struct LayerNormForward {
  const T* x;
  const float* w;
  const float* b;
  T* y;
  float* m;
  float* r;
  std::int64_t width;
  float epsilon;
  float offset;
};
template <class T>
struct LayerNormInputGradient {
  const T* dy;
  const T* x;
  const float* w;
  const float* m;
  const float* r;
  T* dx;
  std::int64_t width;
  float offset;
};
template <class T>
struct LayerNormWeightGradient {
  const T* dy;
  const T* x;
  const float* m;
  const float* r;
  float* dw;
  float* db;
  std::int64_t rows;
  std::int64_t width;
};

MILLRACE_CPU_KERNEL(layer_norm_forward_f32, void(const LayerNormForward<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(layer_norm_forward_bf16, void(const LayerNormForward<BFloat16>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(layer_norm_input_gradient_f32, void(const LayerNormInputGradient<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(layer_norm_input_gradient_bf16, void(const LayerNormInputGradient<BFloat16>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(layer_norm_weight_gradient_f32, void(const LayerNormWeightGradient<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(layer_norm_weight_gradient_bf16,
                    void(const LayerNormWeightGradient<BFloat16>& at, std::int64_t begin, std::int64_t end));

}  // namespace millrace::kernels::cpu
