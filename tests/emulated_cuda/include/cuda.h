#pragma once
#pragma GCC system_header

#include <cstdint>

/// A tensor with three axes of bf16, of which boxes of 64 x lines elements are copied, swizzled by 128 bytes: what
/// kernels/cuda/tensor_map.hpp asks the driver to encode.
struct CUtensorMap {
  const char* data;
  std::int64_t sizes[3];  // elements along each axis, the contiguous one first
  std::int64_t steps[2];  // elements from one place to the next along the second and the third axis
  int lines;
};
