#pragma once

#include "kernels/base/tensor.hpp"

namespace millrace::benchmarks {

/// Fills a tensor of f32 or bf16 with small numbers of both signs.
inline void fill(const kernels::Tensor& tensor) {
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    const float value = 0.01F * static_cast<float>(i % 97 - 48);
    if (tensor.dtype == kernels::DType::bf16)
      tensor.as<kernels::BFloat16>()[i] = kernels::to_bfloat16(value);
    else
      tensor.as<float>()[i] = value;
  }
}

}  // namespace millrace::benchmarks
