#pragma once

#include <cuda_runtime.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "kernels/attention.hpp"

/// Attention as cuDNN computes it, where it can: bf16, heads of up to 128 in steps of 8, rows of 64 tokens or more that are one segment
/// each, every earlier key or every key at all, nothing else asked. Everywhere else, and in builds without cuDNN, the kernels of
/// kernels/cuda/attention_kernels.hpp answer.
#ifdef MILLRACE_CUDNN
struct cudnnContext;

namespace millrace::kernels::cuda {

/// The plans of one queue: made when a problem is first seen, and kept. A problem for which none can be made is remembered too, so that
/// who computes is decided once and its bits repeat. Thread: the queue's.
class FusedAttentions {
 public:
  /// On the thread's current device; plans run on `lane`.
  explicit FusedAttentions(cudaStream_t lane);
  ~FusedAttentions();
  FusedAttentions(const FusedAttentions&) = delete;
  FusedAttentions& operator=(const FusedAttentions&) = delete;

  /// As attention_forward and attention_input_gradient. False: nothing was queued, somebody else has to.
  [[nodiscard]] bool forward(const ExecutionContext& context, const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions options,
                             const Tensor& o, const Tensor& log_sum_exp, Scratch scratch);
  [[nodiscard]] bool input_gradient(const ExecutionContext& context, const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor& o, const Tensor& log_sum_exp, AttentionOptions options, const Tensor& dq,
                                    const Tensor& dk, const Tensor& dv, Scratch scratch);

  /// Why the last problem that was refused was refused, in cuDNN's words where it has some.
  [[nodiscard]] const std::string& refusal() const noexcept { return refusal_; }

  /// What one plan computes: some rows, and some heads of all that a token has.
  struct Problem {
    std::int64_t rows = 0, sequence = 0, heads = 0, kv_heads = 0, width = 0;
    std::int64_t token_heads = 0, token_kv_heads = 0;
    float scale = 1.0F;
    bool causal = true, backward = false;
    friend auto operator<=>(const Problem&, const Problem&) = default;
  };

 private:
  struct Plan;
  /// Null where there is none that `workspace` bytes are enough for.
  [[nodiscard]] const Plan* plan_of(const Problem& problem, std::size_t workspace);
  [[nodiscard]] std::unique_ptr<Plan> make_plan(const Problem& problem, std::size_t workspace) const;

  cudnnContext* handle_ = nullptr;  // null: nothing is computed here
  int generation_ = 0;              // of the device: its compute capability's first number
  std::map<Problem, std::unique_ptr<Plan>> plans_;
  std::string refusal_;
};

/// As the operations of these names; false where cuDNN does not cover the call or has refused it, and then nothing was queued.
[[nodiscard]] bool fused_attention_forward(const ExecutionContext& context, const Tensor& q, const Tensor& k, const Tensor& v,
                                           AttentionOptions options, const Tensor& o, const Tensor& log_sum_exp, Scratch scratch,
                                           const Tensor* sinks);
[[nodiscard]] bool fused_attention_input_gradient(const ExecutionContext& context, const Tensor& d_o, const Tensor& q, const Tensor& k,
                                                  const Tensor& v, const Tensor& o, const Tensor& log_sum_exp, AttentionOptions options,
                                                  const Tensor& dq, const Tensor& dk, const Tensor& dv, Scratch scratch);
/// 0 for what is not covered. Known without a device: a plan that wants more is refused.
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
