#pragma once

#include <cstddef>

#include "kernels/linear_cross_entropy.hpp"

/// kernels/linear_cross_entropy.hpp in tiles. Operands are checked by the caller. On a processor without bf16
/// instructions the whole computation is in fp32, rounded once into dh; with them the tile of dl is rounded to bf16 and multiplied as such.
namespace millrace::kernels::cpu {

void linear_logits(const ExecutionContext& context, const Tensor& h, const Tensor& w, CrossEntropyOptions options, const Tensor& logits,
                   Scratch scratch);
void linear_cross_entropy_forward(const ExecutionContext& context, const Tensor& h, const Tensor& w, const Tensor& targets,
                                  CrossEntropyOptions options, const Tensor& loss, const Tensor& log_sum_exp, Scratch scratch);

void linear_cross_entropy_input_gradient(const ExecutionContext& context, const Tensor& h, const Tensor& w, const Tensor& targets,
                                         const Tensor& g, CrossEntropyOptions options, const Tensor& dh, const Tensor& loss,
                                         const Tensor& log_sum_exp, Scratch scratch);
void linear_cross_entropy_weight_gradient(const ExecutionContext& context, const Tensor& h, const Tensor& w, const Tensor& targets,
                                          const Tensor& log_sum_exp, const Tensor& g, CrossEntropyOptions options, const Tensor& dw,
                                          Scratch scratch);
void linear_cross_entropy_gradients(const ExecutionContext& context, const Tensor& h, const Tensor& w, const Tensor& targets,
                                    const Tensor& g, CrossEntropyOptions options, const Tensor& dh, const Tensor& loss,
                                    const Tensor& log_sum_exp, const Tensor& dw, Scratch scratch);

/// A tile has all of a token's logits.
[[nodiscard]] bool linear_cross_entropy_has_whole_rows(const Shape& h, const Shape& w, DType dtype, CrossEntropyOptions options);
[[nodiscard]] std::size_t linear_cross_entropy_scratch_bytes(const Shape& h, const Shape& w, DType dtype, CrossEntropyOptions options,
                                                             int threads);

}  // namespace millrace::kernels::cpu
