#pragma once

#include <cstdint>
#include <string>

#include "runtime/program/builder.hpp"

namespace millrace::layers {

struct AttentionSize {
  std::int64_t width = 0;  // of the residual stream
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  // divides heads (grouped queries: Ainslie et al., arXiv 2305.13245)
  std::int64_t head_dim = 0;
};

/// Causal self-attention with rotary positions (Su et al., arXiv 2104.09864): x [T, width] → [T, width]; documents of a packed row do not
/// see each other. Weights under `module`: q_proj [heads·head_dim, width], k_proj and v_proj [kv_heads·head_dim, width], o_proj [width,
/// heads·head_dim]. Scores are scaled by 1/√head_dim. `inverse_frequencies` f32 [head_dim / 2]. Labels: query_proj and key_proj (after
/// rotation), value_proj, context and attention_out (the weighted values), out_proj (result).
[[nodiscard]] runtime::ValueId dot_product_attention(runtime::ProgramBuilder& builder, runtime::ValueId x, const AttentionSize& size,
                                                     runtime::ValueId inverse_frequencies, const std::string& module);

}  // namespace millrace::layers
