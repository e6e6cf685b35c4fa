#pragma once

#include "kernels/base/buffer.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::benchmarks {

/// A tensor in memory of its own, which is zero.
struct OwnedTensor {
  OwnedTensor(kernels::DType dtype, kernels::Shape shape)
      : memory(static_cast<std::size_t>(shape.elements()) * kernels::size_of(dtype)),
        tensor(kernels::make_tensor(memory.data(), dtype, shape)) {}
  kernels::Buffer memory;
  kernels::Tensor tensor;
};

}  // namespace millrace::benchmarks
