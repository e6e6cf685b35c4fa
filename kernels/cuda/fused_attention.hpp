#pragma once

#include <cuda_runtime.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "kernels/attention.hpp"

/// Attention by cuDNN, where it is supported: bf16, one head size for keys and values of up to 128 in steps of 8, rows of at least 64
/// tokens that are one segment each, causal or full attention, no other option. In all other cases, and in builds without cuDNN, the
/// kernels of kernels/cuda/attention_kernels.hpp run.
#ifdef MILLRACE_CUDNN
struct cudnnContext;

namespace millrace::kernels::cuda {

/// The plans of one device context, which are created when a problem is first seen, and cached. A problem for which no plan can
/// be made is remembered too, so that the choice between cuDNN and our kernels is made once and bits repeat. Thread: the
/// context's.
class FusedAttentions {
 public:
  /// On the thread's current device; plans run on the stream `lane`.
  explicit FusedAttentions(cudaStream_t lane);
  ~FusedAttentions();
  FusedAttentions(const FusedAttentions&) = delete;
  FusedAttentions& operator=(const FusedAttentions&) = delete;

  /// Same contract as attention_forward and attention_input_gradient. false: nothing was enqueued, and our own kernels must run.
  [[nodiscard]] bool forward(const ExecutionContext& context, const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions options,
                             const Tensor& o, const Tensor& log_sum_exp, Scratch scratch);
  [[nodiscard]] bool input_gradient(const ExecutionContext& context, const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor& o, const Tensor& log_sum_exp, AttentionOptions options, const Tensor& dq,
                                    const Tensor& dk, const Tensor& dv, Scratch scratch);

  /// The reason why the last refused problem was refused, in cuDNN's words if it gives any.
  [[nodiscard]] const std::string& refusal() const noexcept { return refusal_; }

  /// The work of one plan: some rows, and some of a token's heads.
  struct Problem {
    std::int64_t rows = 0, sequence = 0, heads = 0, kv_heads = 0, width = 0;
    std::int64_t token_heads = 0, token_kv_heads = 0;
    float scale = 1.0F;
    bool causal = true, backward = false;
    friend auto operator<=>(const Problem&, const Problem&) = default;
  };

 private:
  struct Plan;
  /// Null if there is no plan for which `workspace` bytes are enough.
  [[nodiscard]] const Plan* plan_of(const Problem& problem, std::size_t workspace);
  [[nodiscard]] std::unique_ptr<Plan> make_plan(const Problem& problem, std::size_t workspace) const;

  cudnnContext* handle_ = nullptr;  // null: cuDNN is not used
  int generation_ = 0;              // of the device: the first number of its compute capability
  std::map<Problem, std::unique_ptr<Plan>> plans_;
  std::string refusal_;
};

/// Same contract as the operations of these names; false if cuDNN does not support the call or has refused it, and then nothing
/// was enqueued.
[[nodiscard]] bool fused_attention_forward(const ExecutionContext& context, const Tensor& q, const Tensor& k, const Tensor& v,
                                           AttentionOptions options, const Tensor& o, const Tensor& log_sum_exp, Scratch scratch,
                                           const Tensor* sinks);
[[nodiscard]] bool fused_attention_input_gradient(const ExecutionContext& context, const Tensor& d_o, const Tensor& q, const Tensor& k,
                                                  const Tensor& v, const Tensor& o, const Tensor& log_sum_exp, AttentionOptions options,
                                                  const Tensor& dq, const Tensor& dk, const Tensor& dv, Scratch scratch);
/// 0 for unsupported calls. Computed without a device: a plan that needs more is refused.
[[nodiscard]] std::size_t fused_attention_scratch_bytes(const Shape& q, const Shape& k, DType dtype, AttentionOptions options);

}  // namespace millrace::kernels::cuda
#else
namespace millrace::kernels::cuda {

class FusedAttentions {};

[[nodiscard]] inline bool fused_attention_forward(const ExecutionContext&, const Tensor&, const Tensor&, const Tensor&, AttentionOptions,
                                                  const Tensor&, const Tensor&, Scratch, const Tensor*) {
  return false;
}
[[nodiscard]] inline bool fused_attention_input_gradient(const ExecutionContext&, const Tensor&, const Tensor&, const Tensor&,
                                                         const Tensor&, const Tensor&, const Tensor&, AttentionOptions, const Tensor&,
                                                         const Tensor&, const Tensor&, Scratch) {
  return false;
}
[[nodiscard]] inline std::size_t fused_attention_scratch_bytes(const Shape&, const Shape&, DType, AttentionOptions) { return 0; }

}  // namespace millrace::kernels::cuda
#endif
