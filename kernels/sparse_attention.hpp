#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/options.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

struct SparseAttentionOptions {
  std::int64_t sequence = 0;    // S: the T = rows·S tokens are rows of this length
  std::int64_t head_dim = 0;    // D; must be given if q is [T, H·D]; 0: the last axis of q [T, H, D]
  std::int64_t v_head_dim = 0;  // Dv, the width of a head of v and o; 0: D
  float scale = 1.0F;           // multiplies q·k
  float soft_cap = 0.0F;        // scores s become soft_cap·tanh(s / soft_cap); 0: no cap

  static constexpr auto members() {
    return std::tuple(member("sequence", &SparseAttentionOptions::sequence), member("head_dim", &SparseAttentionOptions::head_dim),
                      member("v_head_dim", &SparseAttentionOptions::v_head_dim), member("scale", &SparseAttentionOptions::scale),
                      member("soft_cap", &SparseAttentionOptions::soft_cap));
  }
};

/// Dv of heads whose queries and keys have `head_dim` features.
[[nodiscard]] constexpr std::int64_t value_width(const SparseAttentionOptions& options, std::int64_t head_dim) {
  return options.v_head_dim == 0 ? head_dim : options.v_head_dim;
}

/// Grouped-query attention of each query to the keys of its key list: keys i32 [T, L], places in the query's row in increasing order and −1
/// behind the last (kernels/choose_keys.hpp), which all heads share. The list alone is the mask: no key is left out because it is later or
/// belongs to another document. q [T, H, D]; k [T, K, D]; v [T, K, Dv]; o [T, H, Dv], all of one dtype, f32 or bf16; query head h reads
/// key/value head h / (H / K); log_sum_exp f32 [T, H] (natural log of the scores' sum). Scores, softmax and sums in fp32, keys in the order
/// of the list. A query with an empty list has o = 0 and log_sum_exp = −∞. No buffer is larger than a list per thread. The bits do not
/// depend on the thread count. Throws Error(config) if H is not a multiple of K or an option is below 0, Error(internal) for operands of
/// other types and for a line of keys that is not a key list, naming position and value; a device reports a key outside [−1, S) when its
/// work is done.
void sparse_attention_forward(const ExecutionContext& context, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& keys,
                              SparseAttentionOptions options, const Tensor& o, const Tensor& log_sum_exp, Scratch scratch);

/// Computes dq, dk, dv, of the shapes of q, k, v, from dO [T, H, Dv]; probabilities are recomputed from q, k and log_sum_exp. dk and dv are
/// sums in fp32 over the queries that list the key, in increasing order, and for each over the heads of its group; a key that no query
/// lists has zeros.
void sparse_attention_input_gradient(const ExecutionContext& context, const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v,
                                     const Tensor& o, const Tensor& log_sum_exp, const Tensor& keys, SparseAttentionOptions options,
                                     const Tensor& dq, const Tensor& dk, const Tensor& dv, Scratch scratch);

/// Scratch for either call; q's shape is [T, H, D], k's [T, K, D]; L is the length of a key list; Dv is that of the options.
[[nodiscard]] std::size_t sparse_attention_scratch_bytes(const Shape& q, const Shape& k, std::int64_t list_length, DType dtype,
                                                         SparseAttentionOptions options, const Processor& processor);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(sparse_attention_forward)> sparse_attention_forward("sparse_attention_forward");
inline constinit Kernel<decltype(sparse_attention_input_gradient)> sparse_attention_input_gradient("sparse_attention_input_gradient");
inline constinit Kernel<decltype(sparse_attention_scratch_bytes)> sparse_attention_scratch_bytes("sparse_attention_scratch_bytes");
}  // namespace table

}  // namespace millrace::kernels
