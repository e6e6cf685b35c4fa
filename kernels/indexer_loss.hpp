#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/options.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

struct IndexerLossOptions {
  std::int64_t sequence = 0;     // S: the T = rows·S tokens are rows of this length
  std::int64_t head_dim = 0;     // D; must be given if q is [T, H·D]; 0: the last axis of q [T, H, D]
  float scale = 1.0F;            // multiplies q·k
  float index_scale = 1.0F;      // multiplies the indexer's scores
  std::int64_t list_length = 0;  // L of the key lists; 0: there are none, and a query's keys are all that it sees

  static constexpr auto members() {
    return std::tuple(member("sequence", &IndexerLossOptions::sequence), member("head_dim", &IndexerLossOptions::head_dim),
                      member("scale", &IndexerLossOptions::scale), member("index_scale", &IndexerLossOptions::index_scale),
                      member("list_length", &IndexerLossOptions::list_length));
  }
};

/// Added to sums and within logarithms.
inline constexpr float indexer_loss_epsilon = 1e-8F;

/// The operands of the indexer's loss.
struct IndexerLossOperands {
  const Tensor& q;              // [T, H, D], f32 or bf16: the attention's
  const Tensor& k;              // [T, K, D]
  const Tensor& index_q;        // [T, Hi, Di], of the same dtype
  const Tensor& index_k;        // [T, Di]
  const Tensor& index_weights;  // f32 [T, Hi]
  const Tensor& segments;       // i32 [T]
  const Tensor* keys;           // i32 [T, L], key lists (kernels/choose_keys.hpp); null if L is 0
};

/// The loss that trains DeepSeek-V3.2's indexer (arXiv 2512.02556, section 2.1): how far its distribution over a query's keys is from the
/// attention's, summed over its heads. With the scores I of kernels/choose_keys.hpp (scale is index_scale) and for each token t over the
/// keys u of its list, or with L = 0 over all that it sees (those of its row up to its own place, of its own segment):
///   P[t, u] = Σ_h softmax_u(scale · q[t, h] · k[u]) / (Σ_u Σ_h softmax + ε),   Q[t, u] = softmax_u(I[t, u]),
///   loss[0] = Σ_t Σ_u P (log(P + ε) − log(Q + ε)),   ε = indexer_loss_epsilon.
/// loss f64 [1]. Terms are computed in fp32, the sum over tokens in f64 in order. The bits do not depend on the thread count. Throws
/// Error(config) if H is not a multiple of K, Error(internal) for operands of other types and for a line of keys that is not a key list,
/// naming position and value; a device reports a key outside [−1, S) when its work is done.
void indexer_loss(const ExecutionContext& context, const IndexerLossOperands& in, IndexerLossOptions options, const Tensor& loss,
                  Scratch scratch);

/// The loss as above, and scale · its gradients with respect to the indexer's operands: d_index_q and d_index_k in their dtype,
/// d_index_weights f32. From
///   dI[t, u] = scale · (Q · Σ_u R − R),   R = P · Q / (Q + ε);
/// q and k are constants. `scale` f32 [1]. d_index_k is a sum over queries, in fp32 in an order that depends on S alone.
void indexer_loss_input_gradient(const ExecutionContext& context, const IndexerLossOperands& in, const Tensor& scale,
                                 IndexerLossOptions options, const Tensor& d_index_q, const Tensor& d_index_k,
                                 const Tensor& d_index_weights, const Tensor& loss, Scratch scratch);

/// Scratch for either call; q's shape is [T, H, D], index_q's [T, Hi, Di].
[[nodiscard]] std::size_t indexer_loss_scratch_bytes(const Shape& q, const Shape& index_q, DType dtype, IndexerLossOptions options,
                                                     const Processor& processor);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(indexer_loss)> indexer_loss("indexer_loss");
inline constinit Kernel<decltype(indexer_loss_input_gradient)> indexer_loss_input_gradient("indexer_loss_input_gradient");
inline constinit Kernel<decltype(indexer_loss_scratch_bytes)> indexer_loss_scratch_bytes("indexer_loss_scratch_bytes");
}  // namespace table

}  // namespace millrace::kernels
