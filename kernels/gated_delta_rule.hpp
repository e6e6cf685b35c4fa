#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/options.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

struct GatedDeltaRuleOptions {
  std::int64_t sequence = 0;  // S: the T = rows·S tokens are rows of this length
  // dk, dv; must be given if q, k, v are matrices; 0: the last axes of q and v
  std::int64_t head_k_dim = 0;
  std::int64_t head_v_dim = 0;
  float scale = 1.0F;  // multiplies q, in fp32
  // The state begins anew at every border of segments; false: it passes from one document to the next, as in MaxText and transformers
  bool reset_at_segments = true;
  // Promise of the caller that every row is a single segment, so that `segments` is not read. Padding behind a row's text is then
  // treated as text, which no token of the text sees.
  bool one_segment = false;

  static constexpr auto members() {
    return std::tuple(member("sequence", &GatedDeltaRuleOptions::sequence), member("head_k_dim", &GatedDeltaRuleOptions::head_k_dim),
                      member("head_v_dim", &GatedDeltaRuleOptions::head_v_dim), member("scale", &GatedDeltaRuleOptions::scale),
                      member("reset_at_segments", &GatedDeltaRuleOptions::reset_at_segments),
                      member("one_segment", &GatedDeltaRuleOptions::one_segment));
  }
};

/// Tokens of a chunk, counted from the row's first; the last chunk of a row may be shorter.
inline constexpr std::int64_t gated_delta_rule_chunk = 64;

/// The gated delta rule (Yang et al., Gated Delta Networks, arXiv 2412.06464). Each value head h has a state Ω [dk, dv], zero where its row
/// begins, and reads the key head h / (Hv / Hk). Token by token
///
///   Ω ← exp(g)·Ω;  u = β·(v − Ωᵀk);  Ω ← Ω + k·uᵀ;  o = scale·Ωᵀq.
///
/// q, k [T, Hk, dk]; v, o [T, Hv, dv] of one dtype, f32 or bf16; g (the logarithm of the decay, 0 or less) and beta f32 [T, Hv]; segments
/// i32 [T]. A token of segment 0 (padding) leaves the state as it is: its k, v and g count as 0, and their gradients are 0.
///
/// All arithmetic is fp32, from the operands' values to the rounding of o. It is done chunk by chunk (arXiv 2412.06464, section 3.3; arXiv
/// 2406.06484) in the order of the row, where γ is the sum of g since the chunk began, Λ_ij = exp(γ_i − γ_j) for i >= j, L the strictly
/// lower part of diag(β)·KKᵀ∘Λ, and Ω the state that comes in:
///
///   (I + L)·U = diag(β)·(V − diag(e^γ)·KΩ);  O = diag(e^γ)·QΩ + (QKᵀ∘Λ)·U;  Ω ← e^γ_c·Ω + Kᵀ·diag(e^(γ_c − γ))·U.
///
/// Where a segment begins inside of a chunk, Λ between the segments and e^γ behind the border are 0. Each sum is a chain in the order of
/// its tokens or of its depth. Bits do not depend on the thread count: heads share no sums. Throws Error(config) if Hv is not a multiple of
/// Hk.
void gated_delta_rule_forward(const ExecutionContext& context, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g,
                              const Tensor& beta, const Tensor& segments, GatedDeltaRuleOptions options, const Tensor& o, Scratch scratch);

/// Computes dq, dk, dv (dtype of q) and dg, dbeta (f32) from dO. The sum over the value heads of a key head has their order, in fp32,
/// rounded once.
///
/// The forward hands nothing over: the states at the borders of chunks are as large as dk/64 fp32 copies of o (64 MiB for 2,048 tokens of
/// 32 heads of 128 x 128), while to compute them and U again takes 5 of the gradient's 23 million FLOPs a chunk and head. They are in
/// scratch, one key head at a time for each thread (on a GPU: all heads).
void gated_delta_rule_input_gradient(const ExecutionContext& context, const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v,
                                     const Tensor& g, const Tensor& beta, const Tensor& segments, GatedDeltaRuleOptions options,
                                     const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& dg, const Tensor& dbeta,
                                     Scratch scratch);

/// FLOPs of one call, for T tokens: multiply-adds of the products above, with only the lower triangles of a chunk's matrices.
struct GatedDeltaRuleFlops {
  double forward = 0;
  double gradient = 0;
};
[[nodiscard]] GatedDeltaRuleFlops gated_delta_rule_flops(std::int64_t tokens, std::int64_t key_heads, std::int64_t value_heads,
                                                         GatedDeltaRuleOptions options);

/// Scratch of either call; the shapes are [T, Hk, dk] and [T, Hv, dv].
[[nodiscard]] std::size_t gated_delta_rule_forward_scratch_bytes(const Shape& q, const Shape& v, GatedDeltaRuleOptions options,
                                                                 const Processor& processor);
[[nodiscard]] std::size_t gated_delta_rule_gradient_scratch_bytes(const Shape& q, const Shape& v, GatedDeltaRuleOptions options,
                                                                  const Processor& processor);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(gated_delta_rule_forward)> gated_delta_rule_forward("gated_delta_rule_forward");
inline constinit Kernel<decltype(gated_delta_rule_input_gradient)> gated_delta_rule_input_gradient("gated_delta_rule_input_gradient");
inline constinit Kernel<decltype(gated_delta_rule_forward_scratch_bytes)> gated_delta_rule_forward_scratch_bytes(
    "gated_delta_rule_forward_scratch_bytes");
inline constinit Kernel<decltype(gated_delta_rule_gradient_scratch_bytes)> gated_delta_rule_gradient_scratch_bytes(
    "gated_delta_rule_gradient_scratch_bytes");
}  // namespace table

}  // namespace millrace::kernels
