#include "layers/models/maxtext_layer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "layers/attention/dot_product.hpp"
#include "layers/attention/indexer.hpp"
#include "layers/attention/latent.hpp"
#include "layers/attention/maxtext_delta_net.hpp"
#include "layers/engram.hpp"
#include "layers/hyper_connections.hpp"
#include "runtime/program/operations.hpp"

namespace millrace::layers {
namespace {

/// The module of layer `index`; those of multi-token prediction are counted on from the layers. Blocks whose first layers have an MLP count
/// these and the others apart.
std::string module_of(const MaxTextBlocks& blocks, const ModelSpec& model, int index, const LayerSpec& spec) {
  if (const int module = index - model.decoder_layers() + 1; module >= 1)
    return fmt::format("mtp_block.mtp_layer_{0}.mtp_{0}_transformer_layer", module);
  if (!blocks.experts || !blocks.experts->dense_first) return fmt::format("decoder.layers_{}", index);
  if (std::holds_alternative<MlpSpec>(spec.ffn)) return fmt::format("decoder.dense_layers_{}", index);
  const auto dense = std::ranges::count_if(model.layers, [](const LayerSpec& layer) { return std::holds_alternative<MlpSpec>(layer.ffn); });
  return fmt::format("decoder.moe_layers_{}", index - dense);
}

}  // namespace

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
  kernels::HeadOutputs heads = {};  // for QK-clip
};

MaxTextLayer::MaxTextLayer(ProgramBuilder& builder, const MaxTextBlocks& blocks, const ModelSpec& model, int index, const LayerSpec& spec,
                           std::string suffix)
    : builder_(builder),
      blocks_(blocks),
      model_(model),
      spec_(spec),
      module_(module_of(blocks, model, index, spec)),
      suffix_(std::move(suffix)),
      attention_(blocks.attention_module + suffix_ + (blocks.hybrid ? ".attention" : "")),
      mlp_("mlp" + suffix_) {}

ValueId MaxTextLayer::output(ValueId in, LayerStreams* streams, LayerPart part) const {
  const bool attends = part != LayerPart::ffn, feeds = part != LayerPart::attention;
  const ValueId x = spec_.engram && attends ? with_engram(in) : in;
  const bool before = spec_.norms != NormPlacement::after, after = spec_.norms != NormPlacement::before;
  const MaxTextNormNames& names = blocks_.norm_names;
  KeysAndValues own_keys;
  if (model_.hyper_connections) {
    const auto connected = [&](ValueId of, const char* module, const auto& branch) {
      return hyper_connection(builder_, model_, of, module_ + "." + module, module, branch);
    };
    const auto attend = [&](ValueId read) { return attention(norm(read, names.before_attention), own_keys); };
    const ValueId middle = attends ? connected(x, "mhc_attention", attend) : x;
    if (!feeds) return middle;
    const ValueId y = connected(middle, "mhc_mlp", [&](ValueId read) { return mlp(norm(read, names.before_mlp)); });
    return blocks_.output_dropout ? dropout(y, "dropout") : y;
  }
  ValueId middle = x;
  if (attends) {
    const ValueId attended =
        attention(before ? norm(x, names.before_attention) : x, streams == nullptr ? own_keys : streams->keys_and_values());
    middle = add(x, after ? norm(attended, names.after_attention) : attended, "attention_residual");
  }
  if (!feeds) return middle;
  const ValueId fed = mlp_of_stream(before ? norm(middle, names.before_mlp) : middle, middle);
  ValueId sum = add(middle, after ? norm(fed, names.after_mlp) : fed, "mlp_residual");
  if (streams != nullptr && streams->own_input().valid()) sum = with_own_input(sum, streams->own_input());
  if (spec_.scalar != LayerScalar::none) {
    const ValueId scalar =
        builder_.parameter(module_ + ".layer_scalar", {1}, {.dtype = kernels::DType::f32, .trained = spec_.scalar == LayerScalar::trained});
    sum = runtime::learned_scale(builder_, sum, scalar, "layer_scalar");
  }
  return blocks_.output_dropout ? dropout(sum, "dropout") : sum;
}

ValueId MaxTextLayer::with_engram(ValueId x) const {
  const ValueId read = norm(x, "engram_layer_norm");
  return add(x, engram(builder_, model_, *spec_.engram, read, module_ + ".engram", "engram"), "engram_residual");
}

ValueId MaxTextLayer::with_own_input(ValueId y, ValueId own) const {
  const std::int64_t width = model_.width, part = model_.per_layer_inputs->width;
  const ValueId gate = dense(y, {.path = "per_layer_input_gate", .inputs = width, .outputs = part, .stored = {width, part}});
  const ValueId gated = runtime::glu(builder_, model_.per_layer_inputs->activation, gate, own, "per_layer_glu");
  const ValueId wide = dense(gated, {.path = "per_layer_projection", .inputs = part, .outputs = width, .stored = {part, width}});
  return add(y, norm(wide, "post_per_layer_input_norm"), "per_layer_residual");
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
  const ValueId weight =
      builder_.parameter(name + ".kernel", {kernel.inputs, kernel.outputs}, {.stored = {.shape = kernel.stored}, .heads = kernel.heads});
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
    const auto epsilon = static_cast<float>(model_.norm.epsilon), offset = static_cast<float>(model_.norm.offset);
    normed = runtime::rms_norm(builder_, x, scale, {.epsilon = epsilon, .offset = offset}, path);
  }
  return positioned(builder_, normed, spec, model_.norm.epsilon, which, attention_ + "." + name);
}

/// The kernels of latent attention: `<layer>.<attention>.query`, or wq_a, q_norm and wq_b; wkv_a, kv_norm, wkv_b and out.
class MaxTextLayer::LatentKernels final : public LatentWeights {
 public:
  LatentKernels(const MaxTextLayer& layer, const LatentAttentionSpec& spec) : layer_(layer), spec_(spec) {}

  [[nodiscard]] ValueId project(LatentMatrix which, ValueId x, std::int64_t inputs, std::int64_t outputs) const override {
    const std::int64_t heads = spec_.heads;
    // MaxText's QK-clip leaves queries without a latent vector alone.
    const kernels::HeadOutputs scored = which == LatentMatrix::query ? kernels::HeadOutputs{} : score_outputs(which, spec_, false);
    const auto dense = [&](const char* name, Shape stored) {
      return layer_.dense(
          x, {.path = layer_.attention_ + "." + name, .inputs = inputs, .outputs = outputs, .stored = stored, .heads = scored});
    };
    switch (which) {
      case LatentMatrix::query:
        return dense("query", {inputs, heads, outputs / heads});
      case LatentMatrix::query_down:
        return dense("wq_a", {inputs, outputs});
      case LatentMatrix::query_up:
        return dense("wq_b", {inputs, heads, outputs / heads});
      case LatentMatrix::kv_down:
        return dense("wkv_a", {inputs, outputs});
      case LatentMatrix::kv_up:
        return dense("wkv_b", {inputs, heads, outputs / heads});
      case LatentMatrix::out:
        return dense("out", {heads, inputs / heads, outputs});
    }
    return {};
  }

  [[nodiscard]] ValueId norm(LatentVector which, ValueId x, std::int64_t width) const override {
    const std::string path = layer_.attention_ + (which == LatentVector::query ? ".q_norm" : ".kv_norm");
    const ValueId scale = layer_.builder_.parameter(layer_.module_ + "." + path + ".scale", {width}, runtime::in_f32);
    return runtime::rms_norm(layer_.builder_, x, scale, {.epsilon = static_cast<float>(spec_.norm_epsilon)}, path);
  }

 private:
  const MaxTextLayer& layer_;
  const LatentAttentionSpec& spec_;
};

/// The indexer's parameters under `<layer>.<attention>.indexer`: wq_b, wk, k_norm (scale and bias), weights_proj.
ValueId MaxTextLayer::latent_attention(ValueId x, const LatentAttentionSpec& spec) const {
  const LatentKernels kernels(*this, spec);
  const LatentAttention attention(builder_, spec, kernels, model_.width, attention_);
  if (!spec.indexer) return attention(x);
  const IndexerSpec& indexer = *spec.indexer;
  const auto parameter = [&](const char* name, Shape shape, bool f32, Shape stored) {
    runtime::ParameterForm form = indexer_form(indexer, model_.losses, f32);
    form.stored.shape = stored;
    return builder_.parameter(fmt::format("{}.{}.indexer.{}", module_, attention_, name), shape, form);
  };
  const std::int64_t width = model_.width, heads = indexer.heads, h = indexer.head_dim;
  const IndexerParameters parameters{.query = parameter("wq_b.kernel", {spec.query_rank, heads * h}, false, {spec.query_rank, heads, h}),
                                     .key = parameter("wk.kernel", {width, h}, false, {width, h}),
                                     .weights = parameter("weights_proj.kernel", {width, heads}, true, {width, heads}),
                                     .norm_scale = parameter("k_norm.scale", {h}, true, {h}),
                                     .norm_bias = parameter("k_norm.bias", {h}, true, {h}),
                                     .input_major = true};
  return indexed_attention(builder_, attention, model_, spec, parameters, x, attention_);
}

ValueId MaxTextLayer::attention(ValueId x) const {
  KeysAndValues own;
  return attention(x, own);
}

ValueId MaxTextLayer::attention(ValueId x, KeysAndValues& seen) const {
  if (const auto* net = std::get_if<DeltaNetSpec>(&spec_.mixer))
    return maxtext_delta_net(builder_, x, model_.width, *net, model_.norm.epsilon, module_, blocks_.attention_module + suffix_);
  if (const auto* latent = std::get_if<LatentAttentionSpec>(&spec_.mixer)) return latent_attention(x, *latent);
  const AttentionSpec& spec = spec_.attention();
  const std::int64_t width = model_.width, heads = spec.heads, kv_heads = spec.kv_heads, h = spec.head_dim;
  ValueId q_plain, k_plain, v, gate;
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
    const auto project = [&](const char* name, std::int64_t count, std::int64_t size) {
      return dense(x, {.path = fmt::format("{}.{}", attention_, name),
                       .inputs = width,
                       .outputs = count * size,
                       .stored = {width, count, size},
                       .bias = spec.qkv_bias,
                       .stored_bias = {count, size}});
    };
    q_plain = project("query", heads, spec.output_gate ? 2 * h : h);
    if (spec.output_gate) std::tie(q_plain, gate) = split_gate(builder_, q_plain, spec, attention_ + ".query_split");
    if (!spec.keys_of) k_plain = project("key", kv_heads, h);
    if (!spec.keys_of) v = spec.share_kv ? k_plain : project("value", kv_heads, h);
  }
  const ValueId q = norm_and_rotate(q_plain, QueryOrKey::query, heads * h);
  builder_.label(q, "query_proj");
  if (!spec.keys_of) {
    seen.keys = norm_and_rotate(k_plain, QueryOrKey::key, kv_heads * h);
    seen.values = normed_values(builder_, v, spec, model_.norm.epsilon, attention_ + ".value_norm");
    builder_.label(seen.keys, "key_proj");
    builder_.label(seen.values, "value_proj");
  }
  ValueId sinks;
  if (spec.sinks) sinks = builder_.parameter(module_ + "." + attention_ + ".sinks", {heads}, runtime::in_f32);
  const ValueId context = attended(builder_, q, seen.keys, seen.values, spec, attention_, sinks);
  builder_.label(context, "context");
  builder_.label(context, "attention_out");
  const ValueId gated = spec.output_gate ? gated_context(builder_, gate, context, attention_ + ".gate") : context;
  const ValueId out = dense(gated, {.path = attention_ + ".out",
                                    .inputs = heads * h,
                                    .outputs = width,
                                    .stored = blocks_.hybrid ? Shape{heads * h, width} : Shape{heads, h, width},
                                    .bias = spec.out_bias,
                                    .stored_bias = {width}});
  builder_.label(out, "out_proj");
  return out;
}

ValueId MaxTextLayer::mlp(ValueId x) const {
  const auto* experts = std::get_if<ExpertsSpec>(&spec_.ffn);
  if (experts == nullptr) return mlp_of(x, spec_.mlp(), mlp_);
  const MaxTextExperts& block = blocks_.experts.value();
  ValueId shared;
  const ValueId chosen = maxtext_experts(builder_, x, x, model_, *experts, module_, block.module + suffix_, [&] {
    if (!experts->shared) return;
    shared = mlp_of(x, *experts->shared, block.shared + suffix_);
    if (experts->shared_gate) shared = gated_by_token(x, shared, block.shared_gate + suffix_);
  });
  return shared.valid() ? add(chosen, shared, "shared_sum") : chosen;
}

ValueId MaxTextLayer::mlp_of_stream(ValueId x, ValueId stream) const {
  const auto* experts = std::get_if<ExpertsSpec>(&spec_.ffn);
  if (experts == nullptr || !experts->branch) return mlp(x);
  const MaxTextExperts& block = blocks_.experts.value();
  const auto inner_norm = [&](ValueId of, const char* name) { return norm(of, mlp_ + "." + name); };
  const ValueId scales = builder_.parameter(module_ + "." + mlp_ + ".pre_forward_scale_2", {model_.width}, runtime::in_f32);
  const ValueId normed =
      runtime::rms_norm(builder_, stream, scales, {.epsilon = static_cast<float>(model_.norm.epsilon)}, mlp_ + ".router_norm");
  const ValueId router_input = runtime::scale(builder_, normed, 1 / std::sqrt(static_cast<double>(model_.width)), mlp_ + ".router_scale");
  const ValueId shared = mlp_of(x, *experts->shared, block.shared + suffix_);
  const ValueId chosen = maxtext_experts(builder_, inner_norm(stream, "pre_feedforward_layernorm_2"), router_input, model_, *experts,
                                         module_, block.module + suffix_, [] {});
  return add(inner_norm(chosen, "post_feedforward_layernorm_2"), inner_norm(shared, "post_feedforward_layernorm_1"), "branches");
}

ValueId MaxTextLayer::gated_by_token(ValueId x, ValueId y, const std::string& path) const {
  const ValueId gate = dense(x, {.path = path, .inputs = model_.width, .outputs = 1, .stored = {model_.width, 1}});
  // The one feature of the gate stands for every feature of y.
  const ValueId everywhere = runtime::join_heads(builder_, {gate}, {.heads = model_.width, .shared = 1}, path + ".copies");
  return runtime::glu(builder_, kernels::Activation::sigmoid, everywhere, y, path + ".gated");
}

ValueId MaxTextLayer::mlp_of(ValueId x, const MlpSpec& spec, const std::string& mlp) const {
  const std::int64_t width = model_.width, inner = spec.width;
  const auto in = [&](const char* name, std::int64_t parts, Shape stored) {
    return dense(x, {.path = fmt::format("{}.{}", mlp, name),
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
    hidden = runtime::activate(builder_, spec.activation, plain, mlp + ".activation");
  } else {
    ValueId gate, up;
    if (spec.fused) {
      const auto parts = runtime::split(builder_, in("wi", 2, {width, 2, inner}), {inner, inner}, mlp + ".split");
      gate = parts[0], up = parts[1];
    } else {
      gate = in("wi_0", 1, {width, inner});
      up = in("wi_1", 1, {width, inner});
    }
    builder_.label(gate, "mlpwi_0");
    builder_.label(up, "mlpwi_1");
    hidden = runtime::glu(builder_, spec.activation, gate, up, mlp + ".activation");
  }
  const ValueId dropped = maxtext_dropout(builder_, model_, hidden, mlp + ".dropout");
  const ValueId out =
      dense(dropped,
            {.path = mlp + ".wo", .inputs = inner, .outputs = width, .stored = {inner, width}, .bias = spec.bias, .stored_bias = {width}});
  builder_.label(out, "mlpwo");
  return out;
}

}  // namespace millrace::layers
