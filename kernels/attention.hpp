#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/options.hpp"
#include "kernels/base/tensor.hpp"
#include "kernels/choose_blocks.hpp"

namespace millrace::kernels {

struct AttentionOptions {
  std::int64_t sequence = 0;    // S: the T = rows·S tokens are rows of this length
  std::int64_t head_dim = 0;    // D; must be given if q is [T, H·D]; 0: the last axis of q [T, H, D]
  std::int64_t v_head_dim = 0;  // Dv, the width of a head of v and o; 0: D
  float scale = 1.0F;           // multiplies q·k
  float soft_cap = 0.0F;        // scores s become soft_cap·tanh(s / soft_cap); 0: no cap
  std::int64_t window = 0;      // a query sees the keys that are less than this many positions away, its own among them; 0: no limit
  std::int64_t chunk = 0;       // a query sees the keys of its own chunk, of which the row has one per this many positions; 0: no limit
  bool causal = true;           // a query sees no later key; false: window and chunk reach to both sides
  // Promise of the caller that every row is a single segment, so that `segments` need not be read. Our own kernels give the same
  // bits either way; a GPU's library may be used instead of them (kernels/cuda/fused_attention.hpp), whose bits differ.
  bool one_segment = false;
  std::int64_t block = 0;  // a query sees only the blocks of this many keys that `choice` gives it (kernels/choose_blocks.hpp); 0: no limit
  std::int64_t blocks = 0;  // with block: a query has at most this many of them, from which FLOPs are counted

  static constexpr auto members() {
    return std::tuple(member("sequence", &AttentionOptions::sequence), member("head_dim", &AttentionOptions::head_dim),
                      member("v_head_dim", &AttentionOptions::v_head_dim), member("scale", &AttentionOptions::scale),
                      member("soft_cap", &AttentionOptions::soft_cap), member("window", &AttentionOptions::window),
                      member("chunk", &AttentionOptions::chunk), member("causal", &AttentionOptions::causal),
                      member("one_segment", &AttentionOptions::one_segment), member("block", &AttentionOptions::block),
                      member("blocks", &AttentionOptions::blocks));
  }
};

/// Dv of heads whose queries and keys have `head_dim` features.
[[nodiscard]] constexpr std::int64_t value_width(const AttentionOptions& options, std::int64_t head_dim) {
  return options.v_head_dim == 0 ? head_dim : options.v_head_dim;
}

/// Tiled grouped-query attention: no score matrix is stored, and tiles that no query sees are skipped. Query t attends to key u
/// of its row if the options allow it (they compare indices in the row, not positions) and segments[u] == segments[t]; query head
/// h reads key/value head h / (H / K). q [T, H, D]; k [T, K, D]; v [T, K, Dv]; o [T, H, Dv]; segments i32 [T]; log_sum_exp f32 [T, H]
/// (natural log of the scores' sum). Softmax and sums in fp32; with bf16 operands, a processor that multiplies bf16 rounds probabilities
/// and gradients of scores to bf16 when it multiplies them. Keys and values that a query does not see do not affect its bits, as long as
/// they are finite. The bits do not depend on the thread count. Throws Error(config) if H is not a multiple of K or an option is below 0.
/// Widths that are equal give the same bits whether v_head_dim says so or is 0. `sinks` f32 [H]: one extra score per query head that every
/// query sees and that has no value: exp(sink) is added to the softmax's sum, and log_sum_exp includes it (gpt-oss model card, arXiv
/// 2508.10925). `choice` i32 [T, H, W], given if options.block > 0: the blocks that choose_blocks chose, one bit each; a query that sees no
/// key at all has no result, so that its own block must be among them. Key tiles that no query of a tile chose are skipped. (Dao et al.,
/// FlashAttention-2, arXiv 2307.08691; soft caps: Gemma 2, arXiv 2408.00118.)
void attention_forward(const ExecutionContext& context, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& segments,
                       AttentionOptions options, const Tensor& o, const Tensor& log_sum_exp, Scratch scratch, const Tensor* sinks = nullptr,
                       const Tensor* choice = nullptr);

/// Computes dq, dk, dv, of the shapes of q, k, v, from dO [T, H, Dv]; probabilities are recomputed from q, k and log_sum_exp. Sums over the
/// query heads of a group and over queries have a fixed order. `choice` is that of the forward.
void attention_input_gradient(const ExecutionContext& context, const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v,
                              const Tensor& o, const Tensor& log_sum_exp, const Tensor& segments, AttentionOptions options,
                              const Tensor& dq, const Tensor& dk, const Tensor& dv, Scratch scratch, const Tensor* choice = nullptr);

/// dO, o [T, H, Dv]. Adds dsink to d_sinks, f32 [H]: dsink[h] = −Σ_t exp(sinks[h] − log_sum_exp[t, h]) · (dO[t, h] · o[t, h]), with tokens
/// in order. The other gradients are those of attention_input_gradient with the log_sum_exp that includes the sink.
void attention_sink_gradient(const ExecutionContext& context, const Tensor& d_o, const Tensor& o, const Tensor& log_sum_exp,
                             const Tensor& sinks, const Tensor& d_sinks);

/// Number of pairs of a query and a key in one row of S tokens that the options allow; the FLOPs of attention are counted from
/// it. Segments may exclude more pairs, and so may a window or chunk beside a choice of blocks.
[[nodiscard]] double attention_pairs(AttentionOptions options);

/// Scratch for either call; q's shape is [T, H, D], k's [T, K, D]; Dv is that of the options.
[[nodiscard]] std::size_t attention_scratch_bytes(const Shape& q, const Shape& k, DType dtype, AttentionOptions options,
                                                  const Processor& processor);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(attention_forward)> attention_forward("attention_forward");
inline constinit Kernel<decltype(attention_input_gradient)> attention_input_gradient("attention_input_gradient");
inline constinit Kernel<decltype(attention_sink_gradient)> attention_sink_gradient("attention_sink_gradient");
inline constinit Kernel<decltype(attention_scratch_bytes)> attention_scratch_bytes("attention_scratch_bytes");
}  // namespace table

}  // namespace millrace::kernels
