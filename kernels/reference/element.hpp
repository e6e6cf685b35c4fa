#pragma once

#include <cstdint>

#include "kernels/base/tensor.hpp"

namespace millrace::kernels::reference {

/// One element of an f32 or bf16 tensor as a float.
[[nodiscard]] inline float load(const Tensor& tensor, std::int64_t index) noexcept {
  return tensor.dtype == DType::bf16 ? to_float(tensor.as<BFloat16>()[index]) : tensor.as<float>()[index];
}

/// Stores a float, rounded to the tensor's dtype.
inline void store(const Tensor& tensor, std::int64_t index, float value) noexcept {
  if (tensor.dtype == DType::bf16)
    tensor.as<BFloat16>()[index] = to_bfloat16(value);
  else
    tensor.as<float>()[index] = value;
}

/// The value rounded to this dtype.
[[nodiscard]] inline float rounded(DType dtype, float value) noexcept {
  return dtype == DType::bf16 ? to_float(to_bfloat16(value)) : value;
}

}  // namespace millrace::kernels::reference
