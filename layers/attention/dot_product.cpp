#include "layers/attention/dot_product.hpp"

#include "layers/rotary.hpp"

namespace millrace::layers {
namespace {

using runtime::ProgramBuilder;
using runtime::ValueId;

class Attention {
 public:
  Attention(ProgramBuilder& builder, std::int64_t width, const AttentionSpec& spec, const kernels::RmsNormOptions& norm_form,
            const std::string& module)
      : builder_(builder), width_(width), spec_(spec), norm_form_(norm_form), module_(module) {}

  ValueId operator()(ValueId x, KeysAndValues& seen) const {
    const std::int64_t query_width = spec_.heads * spec_.head_dim, key_width = spec_.kv_heads * spec_.head_dim;
    const auto [q_plain, gate] = queries(x, query_width);
    ValueId k_plain, v_plain;
    if (!spec_.keys_of) k_plain = project(x, key_width, "k");
    if (!spec_.keys_of) v_plain = spec_.share_kv ? k_plain : project(x, key_width, "v");
    const auto epsilon = static_cast<double>(norm_form_.epsilon);
    const ValueId q = positioned(builder_, norm(q_plain, query_width, "q"), spec_, epsilon, QueryOrKey::query, "self_attn.q");
    builder_.label(q, "query_proj");
    if (!spec_.keys_of) {
      seen.keys = positioned(builder_, norm(k_plain, key_width, "k"), spec_, epsilon, QueryOrKey::key, "self_attn.k");
      seen.values = normed_values(builder_, v_plain, spec_, epsilon, "self_attn.v_norm");
      builder_.label(seen.keys, "key_proj");
      builder_.label(seen.values, "value_proj");
    }
    ValueId sinks;
    if (spec_.sinks) sinks = builder_.parameter(module_ + ".sinks", {spec_.heads}, runtime::in_f32);
    const ValueId context = attended(builder_, q, seen.keys, seen.values, spec_, "self_attn", sinks);
    builder_.label(context, "context");
    builder_.label(context, "attention_out");
    const ValueId gated = spec_.output_gate ? gated_context(builder_, gate, context, "self_attn.gate") : context;
    const ValueId weight = builder_.parameter(module_ + ".o_proj.weight", {width_, query_width});
    const ValueId out = biased(runtime::linear(builder_, gated, weight, "self_attn.o_proj"), width_, "o", spec_.out_bias);
    builder_.label(out, "out_proj");
    return out;
  }

 private:
  /// The queries and, if there is an output gate, its values before the sigmoid.
  [[nodiscard]] std::pair<ValueId, ValueId> queries(ValueId x, std::int64_t width) const {
    if (!spec_.output_gate) return {project(x, width, "q"), {}};
    return split_gate(builder_, project(x, 2 * width, "q"), spec_, "self_attn.q_split");
  }
  [[nodiscard]] ValueId project(ValueId x, std::int64_t width, const std::string& which) const {
    const ValueId weight = builder_.parameter(module_ + "." + which + "_proj.weight", {width, width_});
    return biased(runtime::linear(builder_, x, weight, "self_attn." + which + "_proj"), width, which, spec_.qkv_bias);
  }
  [[nodiscard]] ValueId biased(ValueId x, std::int64_t width, const std::string& which, bool has_bias) const {
    if (!has_bias) return x;
    const ValueId bias = builder_.parameter(module_ + "." + which + "_proj.bias", {width}, runtime::in_f32);
    return runtime::add_bias(builder_, x, bias, "self_attn." + which + "_bias");
  }
  [[nodiscard]] ValueId norm(ValueId x, std::int64_t width, const std::string& which) const {
    if (!has_norm_weight(spec_.norm)) return x;
    const std::int64_t vector = spec_.norm == QueryKeyNorm::per_head ? spec_.head_dim : width;
    const ValueId weight = builder_.parameter(module_ + "." + which + "_norm.weight", {vector}, runtime::in_f32);
    return runtime::rms_norm(builder_, x, weight, norm_form_, "self_attn." + which + "_norm");
  }

  ProgramBuilder& builder_;
  const std::int64_t width_;
  const AttentionSpec& spec_;
  const kernels::RmsNormOptions& norm_form_;
  const std::string& module_;
};

}  // namespace

ValueId positioned(ProgramBuilder& builder, ValueId x, const AttentionSpec& spec, double epsilon, QueryOrKey which,
                   const std::string& stem) {
  ValueId y = rotated(builder, x, spec, stem + "_rope");
  if (spec.norm == QueryKeyNorm::after_rotation)
    y = runtime::rms_norm_without_weight(builder, y, spec.head_dim, {.epsilon = static_cast<float>(epsilon)}, stem + "_l2_norm");
  if (which == QueryOrKey::key || !spec.temperature) return y;
  return runtime::attention_temperature(
      builder, y, builder.batch("positions"),
      {.attention_scale = static_cast<float>(spec.temperature->scale), .floor_scale = spec.temperature->floor}, stem + "_temperature");
}

ValueId attended(ProgramBuilder& builder, ValueId q, ValueId k, ValueId v, const AttentionSpec& spec, const std::string& module,
                 ValueId sinks) {
  ValueId choice;
  if (spec.block > 0)
    choice = runtime::choose_blocks(builder, q, k, {.head_dim = spec.head_dim, .block = spec.block, .blocks = spec.blocks},
                                    module + ".choose_blocks");
  return runtime::attention(builder, q, k, v, builder.batch("segments"), attention_form(spec), module + ".attention", sinks, choice);
}

ValueId dot_product_attention(ProgramBuilder& builder, ValueId x, std::int64_t width, const AttentionSpec& spec,
                              const kernels::RmsNormOptions& norm_form, const std::string& module, KeysAndValues& seen) {
  return Attention(builder, width, spec, norm_form, module)(x, seen);
}

ValueId normed_values(ProgramBuilder& builder, ValueId v, const AttentionSpec& spec, double epsilon, const std::string& name) {
  if (!spec.value_norm) return v;
  return runtime::rms_norm_without_weight(builder, v, spec.head_dim, {.epsilon = static_cast<float>(epsilon)}, name);
}

std::pair<ValueId, ValueId> split_gate(ProgramBuilder& builder, ValueId x, const AttentionSpec& spec, std::string_view name) {
  const auto parts = runtime::split_heads(builder, x, spec.heads, {spec.head_dim, spec.head_dim}, name);
  return {parts[0], parts[1]};
}

ValueId gated_context(ProgramBuilder& builder, ValueId gate, ValueId context, std::string_view name) {
  return runtime::glu(builder, kernels::Activation::sigmoid, gate, context, name);
}

kernels::AttentionOptions attention_form(const AttentionSpec& spec) {
  return {.head_dim = spec.head_dim,
          .scale = spec.scale,
          .soft_cap = static_cast<float>(spec.soft_cap),
          .window = spec.window,
          .chunk = spec.chunk,
          .causal = spec.causal,
          .block = spec.block,
          .blocks = spec.blocks};
}

ValueId rotated(ProgramBuilder& builder, ValueId x, const AttentionSpec& spec, const std::string& name) {
  if (!spec.rope) return x;
  const auto frequencies = builder.constant(spec.local_rope ? "local_inverse_frequencies" : "inverse_frequencies",
                                            inverse_frequencies(*spec.rope, spec.head_dim, builder.options().sequence));
  return runtime::rope(builder, x, builder.batch("positions"), frequencies,
                       {.factor = rotary_factor(*spec.rope),
                        .interleaved = spec.interleaved,
                        .unrotated = spec.head_dim - 2 * rotary_pairs(*spec.rope, spec.head_dim)},
                       name);
}

}  // namespace millrace::layers
