#pragma once

#include "kernels/grouped_matmul.hpp"

/// The experts' products on the tensor cores of Hopper GPUs, compute capability 9.0, for bf16 operands whose rows begin at multiples of 16
/// bytes: their lengths are multiples of 8. Whether a product is taken follows from the device, the dtypes and the sizes of a matrix, never
/// from the number of rows or their distribution, as a row's bits depend on it; memory of tensors is aligned to more than 16 bytes.
namespace millrace::kernels::cuda {

/// Enqueues the product if it is taken; returns whether it is.
[[nodiscard]] bool grouped_matmul_on_hopper(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& offsets,
                                            const Tensor& c, const GroupedMatmulOptions& options, const Tensor* bias);
[[nodiscard]] bool grouped_weight_gradient_on_hopper(const ExecutionContext& context, const Tensor& a, const Tensor& b,
                                                     const Tensor& offsets, const Tensor& c);

}  // namespace millrace::kernels::cuda
