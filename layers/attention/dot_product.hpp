#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "layers/layer_spec.hpp"
#include "runtime/program/builder.hpp"
#include "runtime/program/operations.hpp"

namespace millrace::layers {

/// Keys and values as scores use them, [T, kv_heads·head_dim] each.
struct KeysAndValues {
  runtime::ValueId keys, values;
};

/// Self-attention over x [T, width] → [T, width]; documents of a packed row do not attend to each other. Queries and keys are rotated (Su
/// et al., arXiv 2104.09864) if the spec has a rotation. `norm_form` is the form of the norms of queries and keys, if the spec has them.
/// Weights under `module`: q_proj [heads·head_dim, width], k_proj and v_proj [kv_heads·head_dim, width], o_proj [width, heads·head_dim]
/// (.weight, optionally .bias); q_norm, k_norm and `sinks` [heads] as the spec says. With an output gate q_proj is [2·heads·head_dim,
/// width], each head's query before its gate. Labels: query_proj and key_proj (after norm and rotation), value_proj, context and
/// attention_out (the weighted values), out_proj (result). With spec.share_kv there is no v_proj. With spec.keys_of there are neither
/// k_proj and v_proj nor k_norm: `seen` has the keys and values; else those of this layer are put into it.
[[nodiscard]] runtime::ValueId dot_product_attention(runtime::ProgramBuilder& builder, runtime::ValueId x, std::int64_t width,
                                                     const AttentionSpec& spec, const kernels::RmsNormOptions& norm_form,
                                                     const std::string& module, KeysAndValues& seen);

/// x [T, 2·heads·head_dim] → queries and gates, [T, heads·head_dim] each: a head's gate is behind its query.
[[nodiscard]] std::pair<runtime::ValueId, runtime::ValueId> split_gate(runtime::ProgramBuilder& builder, runtime::ValueId x,
                                                                       const AttentionSpec& spec, std::string_view name);

/// The weighted values times the sigmoid of their gates, both [T, heads·head_dim].
[[nodiscard]] runtime::ValueId gated_context(runtime::ProgramBuilder& builder, runtime::ValueId gate, runtime::ValueId context,
                                             std::string_view name);
/// Queries or keys as scores use them: x [T, n·head_dim] rotated by the positions of its tokens, then, if the spec has that norm, divided
/// by the root mean square of each head, and queries times their temperature. `stem` begins the operations' names: <stem>_rope,
/// <stem>_l2_norm, <stem>_temperature.
enum class QueryOrKey : std::uint8_t { query, key };
[[nodiscard]] runtime::ValueId positioned(runtime::ProgramBuilder& builder, runtime::ValueId x, const AttentionSpec& spec, double epsilon,
                                          QueryOrKey which, const std::string& stem);

/// Projected values [T, n·head_dim] as attention adds them up: each head divided by its root mean square, if the spec says so.
[[nodiscard]] runtime::ValueId normed_values(runtime::ProgramBuilder& builder, runtime::ValueId v, const AttentionSpec& spec,
                                             double epsilon, const std::string& name);

/// The values [T, heads·head_dim] that queries, keys and values as scores use them give; `sinks` as in runtime::attention. Operations:
/// <module>.attention, and <module>.choose_blocks if the spec has blocks.
[[nodiscard]] runtime::ValueId attended(runtime::ProgramBuilder& builder, runtime::ValueId q, runtime::ValueId k, runtime::ValueId v,
                                        const AttentionSpec& spec, const std::string& module, runtime::ValueId sinks = {});

/// The options of the attention kernel for a layer.
[[nodiscard]] kernels::AttentionOptions attention_form(const AttentionSpec& spec);

/// x [T, n·head_dim] rotated by the positions of its tokens; x itself if the spec has no rotation. `name` is the operation's. Rotations
/// that depend on the length of a row use the builder's row length.
[[nodiscard]] runtime::ValueId rotated(runtime::ProgramBuilder& builder, runtime::ValueId x, const AttentionSpec& spec,
                                       const std::string& name);

}  // namespace millrace::layers
