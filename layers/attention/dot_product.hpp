#pragma once

#include <cstdint>
#include <string>

#include "runtime/program/builder.hpp"
#include "runtime/program/operations.hpp"

namespace millrace::layers {

/// Which vectors of queries and keys are normed before they are rotated: none, each head's by a weight [head_dim], or all heads' as one by
/// weights [heads·head_dim] and [kv_heads·head_dim].
enum class QueryKeyNorm : std::uint8_t { none, per_head, all_heads };

/// One self-attention over [T, width]. `form` says what is seen, scaled and capped; its head_dim is the heads' width.
struct AttentionLayer {
  std::int64_t width = 0;  // of the residual stream
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;             // divides heads (grouped queries: Ainslie et al., arXiv 2305.13245)
  runtime::AttentionForm form;           // with head_dim
  runtime::ValueId inverse_frequencies;  // f32 [head_dim / 2]; invalid: nothing is rotated
  runtime::RopeForm rope;
  bool bias = false;  // on queries, keys and values
  QueryKeyNorm norm = QueryKeyNorm::none;
  runtime::RmsNormForm norm_form;
};

/// Self-attention with rotary positions (Su et al., arXiv 2104.09864): x [T, width] → [T, width]; documents of a packed row do not see each
/// other. Weights under `module`: q_proj [heads·head_dim, width], k_proj and v_proj [kv_heads·head_dim, width] (.weight and where asked
/// .bias), q_norm and k_norm where asked, o_proj [width, heads·head_dim]. Labels: query_proj and key_proj (after norm and rotation),
/// value_proj, context and attention_out (the weighted values), out_proj (result).
[[nodiscard]] runtime::ValueId dot_product_attention(runtime::ProgramBuilder& builder, runtime::ValueId x, const AttentionLayer& layer,
                                                     const std::string& module);

}  // namespace millrace::layers
