#include "layers/attention/dot_product.hpp"

namespace millrace::layers {
namespace {

using runtime::ProgramBuilder;
using runtime::ValueId;

class Attention {
 public:
  Attention(ProgramBuilder& builder, const AttentionLayer& layer, const std::string& module)
      : builder_(builder), layer_(layer), module_(module) {}

  ValueId operator()(ValueId x) const {
    const std::int64_t query_width = layer_.heads * layer_.form.head_dim, key_width = layer_.kv_heads * layer_.form.head_dim;
    const ValueId q_plain = project(x, query_width, "q"), k_plain = project(x, key_width, "k"), v = project(x, key_width, "v");
    const ValueId q = rotate(norm(q_plain, query_width, "q"), "q"), k = rotate(norm(k_plain, key_width, "k"), "k");
    builder_.label(q, "query_proj");
    builder_.label(k, "key_proj");
    builder_.label(v, "value_proj");
    const ValueId context = runtime::attention(builder_, q, k, v, builder_.batch("segments"), layer_.form, "self_attn.attention");
    builder_.label(context, "context");
    builder_.label(context, "attention_out");
    const ValueId weight = builder_.parameter(module_ + ".o_proj.weight", {layer_.width, query_width});
    const ValueId out = runtime::linear(builder_, context, weight, "self_attn.o_proj");
    builder_.label(out, "out_proj");
    return out;
  }

 private:
  [[nodiscard]] ValueId project(ValueId x, std::int64_t width, const std::string& which) const {
    const ValueId weight = builder_.parameter(module_ + "." + which + "_proj.weight", {width, layer_.width});
    const ValueId y = runtime::linear(builder_, x, weight, "self_attn." + which + "_proj");
    if (!layer_.bias) return y;
    return runtime::add_bias(builder_, y, builder_.parameter(module_ + "." + which + "_proj.bias", {width}),
                             "self_attn." + which + "_bias");
  }
  [[nodiscard]] ValueId norm(ValueId x, std::int64_t width, const std::string& which) const {
    if (layer_.norm == QueryKeyNorm::none) return x;
    const std::int64_t vector = layer_.norm == QueryKeyNorm::per_head ? layer_.form.head_dim : width;
    const ValueId weight = builder_.parameter(module_ + "." + which + "_norm.weight", {vector});
    return runtime::rms_norm(builder_, x, weight, layer_.norm_form, "self_attn." + which + "_norm");
  }
  [[nodiscard]] ValueId rotate(ValueId x, const std::string& which) const {
    if (!layer_.inverse_frequencies.valid()) return x;
    return runtime::rope(builder_, x, builder_.batch("positions"), layer_.inverse_frequencies, layer_.rope, "self_attn." + which + "_rope");
  }

  ProgramBuilder& builder_;
  const AttentionLayer& layer_;
  const std::string& module_;
};

}  // namespace

ValueId dot_product_attention(ProgramBuilder& builder, ValueId x, const AttentionLayer& layer, const std::string& module) {
  return Attention(builder, layer, module)(x);
}

}  // namespace millrace::layers
