#pragma once

#include <cstdint>

#include "kernels/base/dtype.hpp"
#include "kernels/cpu/simd/isa.hpp"

/// Loops of kernels/rms_norm.hpp over rows [begin, end) of `width` elements, of which row t has set t mod `sets` of the weights; the weight
/// gradient over columns [begin, end), for the set `set` alone.
namespace millrace::kernels::cpu {

template <class T>
struct RmsNormForward {
  const T* x;
  const float* w;
  T* y;
  float* r;
  std::int64_t width;
  std::int64_t sets;
  float epsilon;
  float offset;
  bool round_first;
};
template <class T>
struct RmsNormInputGradient {
  const T* dy;
  const T* x;
  const float* w;
  const float* r;
  const T* addend;  // or null
  T* dx;
  std::int64_t width;
  std::int64_t sets;
  float offset;
};
template <class T>
struct RmsNormWeightGradient {
  const T* dy;
  const T* x;
  const float* r;
  float* dw;          // of the set
  std::int64_t rows;  // of the set
  std::int64_t width;
  std::int64_t sets;
  std::int64_t set;
};

MILLRACE_CPU_KERNEL(rms_norm_forward_f32, void(const RmsNormForward<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(rms_norm_forward_bf16, void(const RmsNormForward<BFloat16>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(rms_norm_input_gradient_f32, void(const RmsNormInputGradient<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(rms_norm_input_gradient_bf16, void(const RmsNormInputGradient<BFloat16>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(rms_norm_weight_gradient_f32, void(const RmsNormWeightGradient<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(rms_norm_weight_gradient_bf16, void(const RmsNormWeightGradient<BFloat16>& at, std::int64_t begin, std::int64_t end));

}  // namespace millrace::kernels::cpu
