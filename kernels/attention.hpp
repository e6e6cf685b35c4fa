#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/options.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

struct AttentionOptions {
  std::int64_t sequence = 0;  // S: the T = rows·S tokens are rows of this length
  std::int64_t head_dim = 0;  // D, for who has q as [T, H·D]; 0: the last axis of q [T, H, D] says it
  float scale = 1.0F;         // multiplies q·k
  float soft_cap = 0.0F;      // scores s become soft_cap·tanh(s / soft_cap); 0: they stay
  std::int64_t window = 0;    // a query sees this many keys at most, its own the last of them; 0: any number
  std::int64_t chunk = 0;     // a query sees no key before the last multiple of this, counted in its row; 0: all of them
  bool causal = true;         // false: keys after the query as well, and then neither window nor chunk
  // The caller knows that every row is one segment: then `segments` may go unread. Whether our own kernels read it shows in no bit; a
  // GPU's library may answer instead of them (kernels/cuda/fused_attention.hpp), whose bits are its own.
  bool one_segment = false;

  static constexpr auto members() {
    return std::tuple(member("sequence", &AttentionOptions::sequence), member("head_dim", &AttentionOptions::head_dim),
                      member("scale", &AttentionOptions::scale), member("soft_cap", &AttentionOptions::soft_cap),
                      member("window", &AttentionOptions::window), member("chunk", &AttentionOptions::chunk),
                      member("causal", &AttentionOptions::causal), member("one_segment", &AttentionOptions::one_segment));
  }
};

/// Grouped-query attention, tiled: no score matrix stands in memory, and tiles that no query sees are passed over. Query t attends to key u
/// of its row when the options let it (places in the row, not positions) and segments[u] == segments[t]; query head h reads key/value head
/// h / (H / K). q, o [T, H, D]; k, v [T, K, D]; segments i32 [T]; log_sum_exp f32 [T, H] (natural log of the scores' sum). Softmax and sums
/// in fp32. What a query may not see does not touch its bits, as long as it is finite. The bits do not depend on the thread count. H not a
/// multiple of K, and options that exclude each other, throw Error(config). `sinks` f32 [H]: a score of each query head that every query
/// sees, with nothing behind it: exp(sink) joins the softmax's sum, and log_sum_exp holds it too (gpt-oss model card, arXiv 2508.10925).
/// (Dao et al., FlashAttention-2, arXiv 2307.08691; soft caps: Gemma 2, arXiv 2408.00118.)
void attention_forward(const ExecutionContext& context, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& segments,
                       AttentionOptions options, const Tensor& o, const Tensor& log_sum_exp, Scratch scratch,
                       const Tensor* sinks = nullptr);

/// dq, dk, dv from dO; probabilities are recomputed from q, k and log_sum_exp. Sums over query heads of a group and over queries have a
/// fixed order.
void attention_input_gradient(const ExecutionContext& context, const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v,
                              const Tensor& o, const Tensor& log_sum_exp, const Tensor& segments, AttentionOptions options,
                              const Tensor& dq, const Tensor& dk, const Tensor& dv, Scratch scratch);

/// d_sinks += dsink, f32 [H]: dsink[h] = −Σ_t exp(sinks[h] − log_sum_exp[t, h]) · (dO[t, h] · o[t, h]), tokens in order. The other
/// gradients are those of attention_input_gradient with the log_sum_exp that holds the sink.
void attention_sink_gradient(const ExecutionContext& context, const Tensor& d_o, const Tensor& o, const Tensor& log_sum_exp,
                             const Tensor& sinks, const Tensor& d_sinks);

/// Pairs of a query and a key that the options let meet, in one row of S tokens: what work is counted by. Segments may part more of them.
[[nodiscard]] double attention_pairs(AttentionOptions options);

/// Scratch for either call; q's shape is [T, H, D].
[[nodiscard]] std::size_t attention_scratch_bytes(const Shape& q, const Shape& k, DType dtype, AttentionOptions options,
                                                  const Processor& processor);

/// What the backends implement of the above (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(attention_forward)> attention_forward("attention_forward");
inline constinit Kernel<decltype(attention_input_gradient)> attention_input_gradient("attention_input_gradient");
inline constinit Kernel<decltype(attention_sink_gradient)> attention_sink_gradient("attention_sink_gradient");
inline constinit Kernel<decltype(attention_scratch_bytes)> attention_scratch_bytes("attention_scratch_bytes");
}  // namespace table

}  // namespace millrace::kernels
