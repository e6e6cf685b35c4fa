#include "layers/models/maxtext_layer.hpp"

#include <fmt/format.h>

#include <utility>

#include "runtime/program/operations.hpp"

namespace millrace::layers {

using kernels::Shape;
using runtime::ProgramBuilder;
using runtime::ValueId;

ValueId maxtext_norm(ProgramBuilder& builder, const MaxTextBlocks& blocks, const ModelSpec& model, ValueId x, const std::string& module,
                     std::string_view name) {
  const ValueId scale = builder.parameter(module + ".scale", {model.width}, runtime::in_f32);
  const auto epsilon = static_cast<float>(model.norm.epsilon), offset = static_cast<float>(model.norm.offset);
  if (!blocks.layer_norm) return runtime::rms_norm(builder, x, scale, {.epsilon = epsilon, .offset = offset}, name);
  const ValueId bias = builder.parameter(module + ".bias", {model.width}, runtime::in_f32);
  return runtime::layer_norm(builder, x, scale, bias, {.epsilon = epsilon, .offset = offset}, name);
}

ValueId maxtext_dropout(ProgramBuilder& builder, const ModelSpec& model, ValueId x, std::string_view name) {
  return model.dropout_rate > 0 ? runtime::dropout(builder, x, model.dropout_rate, name) : x;
}

/// A projection: `<layer>.<path>.kernel` and, where asked, `.bias`, stored with the axes that MaxText gives them.
struct MaxTextLayer::Kernel {
  std::string path;
  std::int64_t inputs = 0, outputs = 0;
  Shape stored;
  bool bias = false;
  Shape stored_bias = {};
};

MaxTextLayer::MaxTextLayer(ProgramBuilder& builder, const MaxTextBlocks& blocks, const ModelSpec& model, int index, const LayerSpec& spec,
                           std::string suffix)
    : builder_(builder),
      blocks_(blocks),
      model_(model),
      spec_(spec),
      module_(fmt::format("decoder.layers_{}", index)),
      suffix_(std::move(suffix)),
      attention_(blocks.attention_module + suffix_),
      mlp_("mlp" + suffix_) {}

ValueId MaxTextLayer::output(ValueId x) const {
  const bool before = spec_.norms != NormPlacement::after, after = spec_.norms != NormPlacement::before;
  const MaxTextNormNames& names = blocks_.norm_names;
  const ValueId attended = attention(before ? norm(x, names.before_attention) : x);
  const ValueId middle = add(x, after ? norm(attended, names.after_attention) : attended, "attention_residual");
  const ValueId fed = mlp(before ? norm(middle, names.before_mlp) : middle);
  const ValueId sum = add(middle, after ? norm(fed, names.after_mlp) : fed, "mlp_residual");
  return blocks_.output_dropout ? dropout(sum, "dropout") : sum;
}

ValueId MaxTextLayer::norm(ValueId x, const std::string& name) const {
  return maxtext_norm(builder_, blocks_, model_, x, module_ + "." + name + suffix_, name + suffix_);
}

ValueId MaxTextLayer::product(ValueId x, const std::string& name, std::int64_t inputs, std::int64_t outputs) const {
  return runtime::linear_input_major(builder_, x, builder_.parameter(module_ + "." + name, {inputs, outputs}), name);
}

ValueId MaxTextLayer::add(ValueId x, ValueId y, const std::string& name) const { return runtime::add(builder_, x, y, name + suffix_); }

ValueId MaxTextLayer::dropout(ValueId x, const std::string& name) const { return maxtext_dropout(builder_, model_, x, name + suffix_); }

ValueId MaxTextLayer::dense(ValueId x, const Kernel& kernel) const {
  const std::string name = module_ + "." + kernel.path;
  const ValueId weight = builder_.parameter(name + ".kernel", {kernel.inputs, kernel.outputs}, {.stored = {.shape = kernel.stored}});
  const ValueId y = runtime::linear_input_major(builder_, x, weight, kernel.path);
  if (!kernel.bias) return y;
  const runtime::ParameterForm form{.dtype = kernels::DType::f32, .stored = {.shape = kernel.stored_bias}};
  return runtime::add_bias(builder_, y, builder_.parameter(name + ".bias", {kernel.outputs}, form), kernel.path + "_bias");
}

ValueId MaxTextLayer::norm_and_rotate(ValueId x, QueryOrKey which, std::int64_t width) const {
  const AttentionSpec& spec = spec_.attention();
  const std::string name = which == QueryOrKey::query ? "query" : "key";
  ValueId normed = x;
  if (has_norm_weight(spec.norm)) {
    const std::string path = attention_ + "." + name + "_norm";
    const std::int64_t vector = spec.norm == QueryKeyNorm::per_head ? spec.head_dim : width;
    const ValueId scale = builder_.parameter(module_ + "." + path + ".scale", {vector}, runtime::in_f32);
    normed = runtime::rms_norm(builder_, x, scale, {.epsilon = static_cast<float>(model_.norm.epsilon)}, path);
  }
  return positioned(builder_, normed, spec, model_.norm.epsilon, which, attention_ + "." + name);
}

ValueId MaxTextLayer::attention(ValueId x) const {
  const AttentionSpec& spec = spec_.attention();
  const std::int64_t width = model_.width, heads = spec.heads, kv_heads = spec.kv_heads, h = spec.head_dim;
  ValueId q_plain, k_plain, v;
  if (spec.fused) {
    const ValueId qkv = dense(x, {.path = attention_ + ".qkv_proj",
                                  .inputs = width,
                                  .outputs = 3 * heads * h,
                                  .stored = blocks_.split_axis ? Shape{width, 3, heads, h} : Shape{width, 3 * heads, h},
                                  .bias = spec.qkv_bias,
                                  .stored_bias = blocks_.split_axis ? Shape{3, heads, h} : Shape{3 * heads, h}});
    const auto parts = runtime::split(builder_, qkv, {heads * h, heads * h, heads * h}, attention_ + ".split");
    q_plain = parts[0], k_plain = parts[1], v = parts[2];
  } else {
    const auto project = [&](const char* name, std::int64_t count) {
      return dense(x, {.path = fmt::format("{}.{}", attention_, name),
                       .inputs = width,
                       .outputs = count * h,
                       .stored = {width, count, h},
                       .bias = spec.qkv_bias,
                       .stored_bias = {count, h}});
    };
    q_plain = project("query", heads);
    k_plain = project("key", kv_heads);
    v = spec.share_kv ? k_plain : project("value", kv_heads);
  }
  const ValueId q = norm_and_rotate(q_plain, QueryOrKey::query, heads * h), k = norm_and_rotate(k_plain, QueryOrKey::key, kv_heads * h);
  builder_.label(q, "query_proj");
  builder_.label(k, "key_proj");
  builder_.label(v, "value_proj");
  const ValueId context = attended(builder_, q, k, v, spec, attention_);
  builder_.label(context, "context");
  builder_.label(context, "attention_out");
  const ValueId out = dense(context, {.path = attention_ + ".out",
                                      .inputs = heads * h,
                                      .outputs = width,
                                      .stored = {heads, h, width},
                                      .bias = spec.out_bias,
                                      .stored_bias = {width}});
  builder_.label(out, "out_proj");
  return out;
}

ValueId MaxTextLayer::mlp(ValueId x) const {
  const auto* experts = std::get_if<ExpertsSpec>(&spec_.ffn);
  if (experts == nullptr) return mlp(x, spec_.mlp(), mlp_);
  const MaxTextExperts& names = blocks_.experts.value();
  const ValueId sum = maxtext_experts(builder_, x, x, model_, *experts, module_, names.module + suffix_);
  if (!experts->shared) return sum;
  return add(sum, mlp(x, *experts->shared, names.shared + suffix_), "shared_sum");
}

ValueId MaxTextLayer::mlp(ValueId x, const MlpSpec& spec, const std::string& module) const {
  const std::int64_t width = model_.width, inner = spec.width;
  const auto in = [&](const char* name, std::int64_t parts, Shape stored) {
    return dense(x, {.path = fmt::format("{}.{}", module, name),
                     .inputs = width,
                     .outputs = parts * inner,
                     .stored = stored,
                     .bias = spec.bias,
                     .stored_bias = parts == 1 ? Shape{inner} : Shape{parts, inner}});
  };
  ValueId hidden;
  if (!spec.gated) {
    const ValueId plain = in("wi", 1, spec.fused ? Shape{width, 1, inner} : Shape{width, inner});
    builder_.label(plain, "mlpwi");
    hidden = runtime::activate(builder_, spec.activation, plain, module + ".activation");
  } else {
    ValueId gate, up;
    if (spec.fused) {
      const auto parts = runtime::split(builder_, in("wi", 2, {width, 2, inner}), {inner, inner}, module + ".split");
      gate = parts[0], up = parts[1];
    } else {
      gate = in("wi_0", 1, {width, inner});
      up = in("wi_1", 1, {width, inner});
    }
    builder_.label(gate, "mlpwi_0");
    builder_.label(up, "mlpwi_1");
    hidden = runtime::glu(builder_, spec.activation, gate, up, module + ".activation");
  }
  const ValueId dropped = maxtext_dropout(builder_, model_, hidden, module + ".dropout");
  const ValueId out = dense(
      dropped,
      {.path = module + ".wo", .inputs = inner, .outputs = width, .stored = {inner, width}, .bias = spec.bias, .stored_bias = {width}});
  builder_.label(out, "mlpwo");
  return out;
}

}  // namespace millrace::layers
