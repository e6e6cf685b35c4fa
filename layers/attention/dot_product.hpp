#pragma once

#include <cstdint>
#include <string>

#include "layers/layer_spec.hpp"
#include "runtime/program/builder.hpp"
#include "runtime/program/operations.hpp"

namespace millrace::layers {

/// Self-attention over x [T, width] → [T, width]; documents of a packed row do not attend to each other. Queries and keys are rotated (Su
/// et al., arXiv 2104.09864) if the spec has a rotation. `norm_form` is the form of the norms of queries and keys, if the spec has them.
/// Weights under `module`: q_proj [heads·head_dim, width], k_proj and v_proj [kv_heads·head_dim, width], o_proj [width, heads·head_dim]
/// (.weight, optionally .bias); q_norm, k_norm and `sinks` [heads] as the spec says. Labels: query_proj and key_proj (after norm and
/// rotation), value_proj, context and attention_out (the weighted values), out_proj (result).
[[nodiscard]] runtime::ValueId dot_product_attention(runtime::ProgramBuilder& builder, runtime::ValueId x, std::int64_t width,
                                                     const AttentionSpec& spec, const kernels::RmsNormOptions& norm_form,
                                                     const std::string& module);

/// The options of the attention kernel for a layer.
[[nodiscard]] kernels::AttentionOptions attention_form(const AttentionSpec& spec);

/// x [T, n·head_dim] rotated by the positions of its tokens; x itself if the spec has no rotation. `name` is the operation's. Rotations
/// that depend on the length of a row use the builder's row length.
[[nodiscard]] runtime::ValueId rotated(runtime::ProgramBuilder& builder, runtime::ValueId x, const AttentionSpec& spec,
                                       const std::string& name);

}  // namespace millrace::layers
