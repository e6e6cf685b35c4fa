#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/base/stream.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

struct AttentionOptions {
  std::int64_t sequence = 0;  // S: the T = rows·S tokens are rows of this length
  float scale = 1.0F;         // multiplies q·k
};

/// Causal grouped-query attention, tiled: no score matrix stands in memory. Query t attends to key u of its row when u <= t and segments[u]
/// == segments[t]; query head h reads key/value head h / (H / K). q, o [T, H, D]; k, v [T, K, D]; segments i32 [T]; log_sum_exp f32 [T, H]
/// (natural log of the scaled scores' sum). Softmax and sums in fp32. What a query may not see does not touch its bits, as long as it is
/// finite. The bits do not depend on the thread count. H not a multiple of K throws Error(config). (Dao et al., FlashAttention-2, arXiv
/// 2307.08691.)
void attention_forward(const Stream& stream, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& segments,
                       AttentionOptions options, const Tensor& o, const Tensor& log_sum_exp, Scratch scratch);

/// dq, dk, dv from dO; probabilities are recomputed from q, k and log_sum_exp. Sums over query heads of a group and over queries have a
/// fixed order.
void attention_input_gradient(const Stream& stream, const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& o,
                              const Tensor& log_sum_exp, const Tensor& segments, AttentionOptions options, const Tensor& dq,
                              const Tensor& dk, const Tensor& dv, Scratch scratch);

/// Scratch for either call; q's shape is [T, H, D].
[[nodiscard]] std::size_t attention_scratch_bytes(const Shape& q, const Shape& k, DType dtype, AttentionOptions options, int threads);

}  // namespace millrace::kernels
