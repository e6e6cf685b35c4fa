#include "layers/attention/dot_product.hpp"

#include <cmath>

#include "runtime/program/operations.hpp"

namespace millrace::layers {

runtime::ValueId dot_product_attention(runtime::ProgramBuilder& builder, runtime::ValueId x, const AttentionSize& size,
                                       runtime::ValueId inverse_frequencies, const std::string& module) {
  using runtime::linear;
  const std::int64_t query_width = size.heads * size.head_dim;
  const std::int64_t key_width = size.kv_heads * size.head_dim;
  const auto positions = builder.batch("positions");
  const auto q_plain = linear(builder, x, builder.parameter(module + ".q_proj.weight", {query_width, size.width}), "self_attn.q_proj");
  const auto k_plain = linear(builder, x, builder.parameter(module + ".k_proj.weight", {key_width, size.width}), "self_attn.k_proj");
  const auto v = linear(builder, x, builder.parameter(module + ".v_proj.weight", {key_width, size.width}), "self_attn.v_proj");
  const auto q = runtime::rope(builder, q_plain, positions, inverse_frequencies, "self_attn.q_rope");
  const auto k = runtime::rope(builder, k_plain, positions, inverse_frequencies, "self_attn.k_rope");
  builder.label(q, "query_proj");
  builder.label(k, "key_proj");
  builder.label(v, "value_proj");

  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(size.head_dim)));
  const auto context = runtime::attention(builder, q, k, v, builder.batch("segments"), size.head_dim, scale, "self_attn.attention");
  builder.label(context, "context");
  builder.label(context, "attention_out");
  const auto out = linear(builder, context, builder.parameter(module + ".o_proj.weight", {size.width, query_width}), "self_attn.o_proj");
  builder.label(out, "out_proj");
  return out;
}

}  // namespace millrace::layers
