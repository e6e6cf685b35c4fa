#pragma once

#include <cstddef>
#include <span>

#include "kernels/activation.hpp"
#include "kernels/adamw.hpp"
#include "kernels/attention.hpp"
#include "kernels/bias.hpp"
#include "kernels/columns.hpp"
#include "kernels/dropout.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/embedding.hpp"
#include "kernels/layer_norm.hpp"
#include "kernels/linear_cross_entropy.hpp"
#include "kernels/matmul.hpp"
#include "kernels/rms_norm.hpp"
#include "kernels/rope.hpp"
#include "kernels/sinusoid.hpp"
#include "kernels/square_sum.hpp"

/// The operations on a GPU: each is the public one of its name (kernels/<operation>.hpp has the contract), once its operands are checked.
/// kernels/cuda has them; a build without CUDA has kernels/no_cuda, which no context of such a build can reach. Operands lie in device
/// memory; a call returns when its work is queued. Bits depend on shapes, dtypes and the device alone.
namespace millrace::kernels::cuda {

// -- activation ----------------------------------------------------------------------------------------------------------------------
void activation_forward(const ExecutionContext& context, Activation activation, const Tensor& x, const Tensor& y);
void activation_input_gradient(const ExecutionContext& context, Activation activation, const Tensor& dy, const Tensor& x, const Tensor& dx);
void glu_forward(const ExecutionContext& context, Activation activation, const Tensor& gate, const Tensor& up, const Tensor& y);
void glu_input_gradient(const ExecutionContext& context, Activation activation, const Tensor& dy, const Tensor& gate, const Tensor& up,
                        const Tensor& d_gate, const Tensor& d_up);

// -- adamw ---------------------------------------------------------------------------------------------------------------------------
void adamw(const ExecutionContext& context, const AdamwScalars& scalars, std::span<const AdamwTensors> tensors);

// -- attention -----------------------------------------------------------------------------------------------------------------------
void attention_forward(const ExecutionContext& context, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& segments,
                       AttentionOptions options, const Tensor& o, const Tensor& log_sum_exp, Scratch scratch, const Tensor* sinks);
void attention_input_gradient(const ExecutionContext& context, const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v,
                              const Tensor& o, const Tensor& log_sum_exp, const Tensor& segments, AttentionOptions options,
                              const Tensor& dq, const Tensor& dk, const Tensor& dv, Scratch scratch);
void attention_sink_gradient(const ExecutionContext& context, const Tensor& d_o, const Tensor& o, const Tensor& log_sum_exp,
                             const Tensor& sinks, const Tensor& d_sinks);
[[nodiscard]] std::size_t attention_scratch_bytes(const Shape& q, const Shape& k, DType dtype, AttentionOptions options);

// -- bias ----------------------------------------------------------------------------------------------------------------------------
void bias_forward(const ExecutionContext& context, const Tensor& x, const Tensor& b, const Tensor& y);
void bias_weight_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& db);

// -- columns -------------------------------------------------------------------------------------------------------------------------
void split_columns(const ExecutionContext& context, const Tensor& x, std::span<const Tensor> parts);
void join_columns(const ExecutionContext& context, std::span<const Tensor> parts, const Tensor& y);

// -- dropout -------------------------------------------------------------------------------------------------------------------------
void dropout(const ExecutionContext& context, const Tensor& x, const Tensor& samples, DropoutOptions options, const Tensor& y);

// -- elementwise ---------------------------------------------------------------------------------------------------------------------
void add(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& y);
void scale(const ExecutionContext& context, const Tensor& x, float factor, const Tensor& y);
void accumulate(const ExecutionContext& context, const Tensor& x, const Tensor& accumulator);
void convert(const ExecutionContext& context, const Tensor& x, const Tensor& y);
void fill_zero(const ExecutionContext& context, const Tensor& y);

// -- embedding -----------------------------------------------------------------------------------------------------------------------
void embedding_forward(const ExecutionContext& context, const Tensor& tokens, const Tensor& table, const Tensor& y);
void embedding_weight_gradient(const ExecutionContext& context, const Tensor& tokens, const Tensor& dy, const Tensor& gradient);

// -- layer_norm ----------------------------------------------------------------------------------------------------------------------
void layer_norm_forward(const ExecutionContext& context, const Tensor& x, const Tensor& w, const Tensor& b, LayerNormOptions options,
                        const Tensor& y, const Tensor& m, const Tensor& r);
void layer_norm_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& m,
                               const Tensor& r, LayerNormOptions options, const Tensor& dx);
void layer_norm_weight_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& m, const Tensor& r,
                                const Tensor& dw, const Tensor& db);

// -- linear_cross_entropy ------------------------------------------------------------------------------------------------------------
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
void linear_logits(const ExecutionContext& context, const Tensor& h, const Tensor& w, CrossEntropyOptions options, const Tensor& logits,
                   Scratch scratch);
[[nodiscard]] std::size_t linear_cross_entropy_scratch_bytes(const Shape& h, const Shape& w, DType dtype, CrossEntropyOptions options);

// -- matmul --------------------------------------------------------------------------------------------------------------------------
void matmul(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& c, MatmulOptions options, Scratch scratch,
            const Tensor* addend);
[[nodiscard]] std::size_t matmul_scratch_bytes(const Shape& a, const Shape& b, DType operands, DType result, MatmulOptions options);

// -- rms_norm ------------------------------------------------------------------------------------------------------------------------
void rms_norm_forward(const ExecutionContext& context, const Tensor& x, const Tensor& w, RmsNormOptions options, const Tensor& y,
                      const Tensor& r);
void rms_norm_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& r,
                             RmsNormOptions options, const Tensor& dx, const Tensor* addend);
void rms_norm_weight_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& r, const Tensor& dw);

// -- rope ----------------------------------------------------------------------------------------------------------------------------
void rope(const ExecutionContext& context, const Tensor& x, const Tensor& positions, const Tensor& inverse_frequencies, RopeOptions options,
          const Tensor& y);

// -- sinusoid ------------------------------------------------------------------------------------------------------------------------
void add_sinusoid(const ExecutionContext& context, const Tensor& x, const Tensor& positions, const Tensor& inverse_timescales,
                  const Tensor& y);

// -- square_sum ----------------------------------------------------------------------------------------------------------------------
void square_sums(const ExecutionContext& context, std::span<const Tensor> tensors, const Tensor& sums);

}  // namespace millrace::kernels::cuda
