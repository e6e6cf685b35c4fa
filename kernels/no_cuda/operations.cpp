#include "kernels/cuda/operations.hpp"

#include "kernels/base/check.hpp"

// What a build without CUDA has in place of kernels/cuda. No context is on a GPU there, so none of this is reached.
namespace millrace::kernels::cuda {
namespace {

[[noreturn]] void unreachable() { fail(ExitCode::internal, "kernels.cuda", "this build has no CUDA kernels"); }

}  // namespace

void activation_forward(const ExecutionContext&, Activation, const Tensor&, const Tensor&) { unreachable(); }
void activation_input_gradient(const ExecutionContext&, Activation, const Tensor&, const Tensor&, const Tensor&) { unreachable(); }
void glu_forward(const ExecutionContext&, Activation, const Tensor&, const Tensor&, const Tensor&) { unreachable(); }
void glu_input_gradient(const ExecutionContext&, Activation, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&) {
  unreachable();
}
void adamw(const ExecutionContext&, const AdamwScalars&, std::span<const AdamwTensors>) { unreachable(); }
void attention_forward(const ExecutionContext&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, AttentionOptions, const Tensor&,
                       const Tensor&, Scratch, const Tensor*) {
  unreachable();
}
void attention_input_gradient(const ExecutionContext&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                              const Tensor&, const Tensor&, AttentionOptions, const Tensor&, const Tensor&, const Tensor&, Scratch) {
  unreachable();
}
void attention_sink_gradient(const ExecutionContext&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&) {
  unreachable();
}
std::size_t attention_scratch_bytes(const Shape&, const Shape&, DType, AttentionOptions) { unreachable(); }
void bias_forward(const ExecutionContext&, const Tensor&, const Tensor&, const Tensor&) { unreachable(); }
void bias_weight_gradient(const ExecutionContext&, const Tensor&, const Tensor&) { unreachable(); }
void split_columns(const ExecutionContext&, const Tensor&, std::span<const Tensor>) { unreachable(); }
void join_columns(const ExecutionContext&, std::span<const Tensor>, const Tensor&) { unreachable(); }
void dropout(const ExecutionContext&, const Tensor&, const Tensor&, DropoutOptions, const Tensor&) { unreachable(); }
void add(const ExecutionContext&, const Tensor&, const Tensor&, const Tensor&) { unreachable(); }
void scale(const ExecutionContext&, const Tensor&, float, const Tensor&) { unreachable(); }
void accumulate(const ExecutionContext&, const Tensor&, const Tensor&) { unreachable(); }
void convert(const ExecutionContext&, const Tensor&, const Tensor&) { unreachable(); }
void fill_zero(const ExecutionContext&, const Tensor&) { unreachable(); }
void embedding_forward(const ExecutionContext&, const Tensor&, const Tensor&, const Tensor&) { unreachable(); }
void embedding_weight_gradient(const ExecutionContext&, const Tensor&, const Tensor&, const Tensor&) { unreachable(); }
void layer_norm_forward(const ExecutionContext&, const Tensor&, const Tensor&, const Tensor&, LayerNormOptions, const Tensor&,
                        const Tensor&, const Tensor&) {
  unreachable();
}
void layer_norm_input_gradient(const ExecutionContext&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                               LayerNormOptions, const Tensor&) {
  unreachable();
}
void layer_norm_weight_gradient(const ExecutionContext&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                const Tensor&) {
  unreachable();
}
void linear_cross_entropy_forward(const ExecutionContext&, const Tensor&, const Tensor&, const Tensor&, CrossEntropyOptions, const Tensor&,
                                  const Tensor&, Scratch) {
  unreachable();
}
void linear_cross_entropy_input_gradient(const ExecutionContext&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                         CrossEntropyOptions, const Tensor&, const Tensor&, const Tensor&, Scratch) {
  unreachable();
}
void linear_cross_entropy_weight_gradient(const ExecutionContext&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                          const Tensor&, CrossEntropyOptions, const Tensor&, Scratch) {
  unreachable();
}
void linear_cross_entropy_gradients(const ExecutionContext&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                    CrossEntropyOptions, const Tensor&, const Tensor&, const Tensor&, const Tensor&, Scratch) {
  unreachable();
}
void linear_logits(const ExecutionContext&, const Tensor&, const Tensor&, CrossEntropyOptions, const Tensor&, Scratch) { unreachable(); }
std::size_t linear_cross_entropy_scratch_bytes(const Shape&, const Shape&, DType, CrossEntropyOptions) { unreachable(); }
void matmul(const ExecutionContext&, const Tensor&, const Tensor&, const Tensor&, MatmulOptions, Scratch, const Tensor*) { unreachable(); }
std::size_t matmul_scratch_bytes(const Shape&, const Shape&, DType, DType, MatmulOptions) { unreachable(); }
void rms_norm_forward(const ExecutionContext&, const Tensor&, const Tensor&, RmsNormOptions, const Tensor&, const Tensor&) {
  unreachable();
}
void rms_norm_input_gradient(const ExecutionContext&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, RmsNormOptions,
                             const Tensor&, const Tensor*) {
  unreachable();
}
void rms_norm_weight_gradient(const ExecutionContext&, const Tensor&, const Tensor&, const Tensor&, const Tensor&) { unreachable(); }
void rope(const ExecutionContext&, const Tensor&, const Tensor&, const Tensor&, RopeOptions, const Tensor&) { unreachable(); }
void add_sinusoid(const ExecutionContext&, const Tensor&, const Tensor&, const Tensor&, const Tensor&) { unreachable(); }
void square_sums(const ExecutionContext&, std::span<const Tensor>, const Tensor&) { unreachable(); }

}  // namespace millrace::kernels::cuda
