#pragma once

#include <cstdint>

#include "kernels/base/dtype.hpp"
#include "kernels/cpu/simd/isa.hpp"

/// Loops of kernels/short_convolution.hpp over channels [begin, end), all tokens.
namespace millrace::kernels::cpu {

inline constexpr std::int64_t kMaxTaps = 16;
inline constexpr std::int64_t kMaxSpan = 64;   // places from the first tap to the last
inline constexpr std::int64_t kChannels = 64;  // that are processed together: whole cache lines

template <class T>
struct ShortConvolution {
  const T* x;
  const float* w;       // or null:
  const BFloat16* w16;  // the weights in bf16
  const std::int32_t* segments;
  std::int64_t tokens;
  std::int64_t sequence;
  std::int64_t channels;
  std::int64_t taps;
  std::int64_t dilation;  // places from one tap to the next
  bool silu;
  bool reset;  // at the borders of segments
};
template <class T>
struct ShortConvolutionForward {
  ShortConvolution<T> in;
  T* y;
};
template <class T>
struct ShortConvolutionInputGradient {
  ShortConvolution<T> in;
  const T* dy;
  T* dx;
};
template <class T>
struct ShortConvolutionWeightGradient {
  ShortConvolution<T> in;
  const T* dy;
  float* dw;
};

MILLRACE_CPU_KERNEL(short_convolution_forward_f32, void(const ShortConvolutionForward<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(short_convolution_forward_bf16,
                    void(const ShortConvolutionForward<BFloat16>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(short_convolution_input_gradient_f32,
                    void(const ShortConvolutionInputGradient<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(short_convolution_input_gradient_bf16,
                    void(const ShortConvolutionInputGradient<BFloat16>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(short_convolution_weight_gradient_f32,
                    void(const ShortConvolutionWeightGradient<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(short_convolution_weight_gradient_bf16,
                    void(const ShortConvolutionWeightGradient<BFloat16>& at, std::int64_t begin, std::int64_t end));

}  // namespace millrace::kernels::cpu
