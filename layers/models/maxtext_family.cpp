#include "layers/models/maxtext_family.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "kernels/base/check.hpp"
#include "layers/attention/dot_product.hpp"
#include "layers/embedding.hpp"
#include "layers/formats/maxtext/config.hpp"
#include "layers/losses/cross_entropy.hpp"
#include "runtime/program/operations.hpp"

namespace millrace::layers {
namespace {

using kernels::Shape;
using runtime::ProgramBuilder;
using runtime::ValueId;

constexpr const char* maxtext_component = "layers.maxtext";
constexpr const char* token_table = "token_embedder.embedding";
constexpr const char* position_table = "decoder.position_embedder.embedding";

/// MaxText draws from a normal distribution truncated at two deviations, and divides by the standard deviation that remains.
constexpr double truncated_deviation = 0.87962566103423978;

ValueId norm_of(ProgramBuilder& builder, const MaxTextBlocks& blocks, const ModelSpec& model, ValueId x, const std::string& module,
                std::string_view name) {
  const ValueId scale = builder.parameter(module + ".scale", {model.width}, runtime::in_f32);
  const auto epsilon = static_cast<float>(model.norm.epsilon), offset = static_cast<float>(model.norm.offset);
  if (!blocks.layer_norm) return runtime::rms_norm(builder, x, scale, {.epsilon = epsilon, .offset = offset}, name);
  const ValueId bias = builder.parameter(module + ".bias", {model.width}, runtime::in_f32);
  return runtime::layer_norm(builder, x, scale, bias, {.epsilon = epsilon, .offset = offset}, name);
}

ValueId drop(ProgramBuilder& builder, const ModelSpec& model, ValueId x, std::string_view name) {
  return model.dropout_rate > 0 ? runtime::dropout(builder, x, model.dropout_rate, name) : x;
}

}  // namespace

/// A projection: `<layer>.<path>.kernel` and, where asked, `.bias`, stored with the axes that MaxText gives them.
struct MaxTextLayer::Kernel {
  std::string path;
  std::int64_t inputs = 0, outputs = 0;
  Shape stored;
  bool bias = false;
  Shape stored_bias = {};
};

MaxTextLayer::MaxTextLayer(ProgramBuilder& builder, const MaxTextBlocks& blocks, const ModelSpec& model, int index)
    : builder_(builder),
      blocks_(blocks),
      model_(model),
      spec_(model.layers.at(static_cast<std::size_t>(index))),
      module_(fmt::format("decoder.layers_{}", index)) {}

ValueId MaxTextLayer::norm(ValueId x, const std::string& name) const {
  return norm_of(builder_, blocks_, model_, x, module_ + "." + name, name);
}

ValueId MaxTextLayer::product(ValueId x, const std::string& name, std::int64_t inputs, std::int64_t outputs) const {
  return runtime::linear_input_major(builder_, x, builder_.parameter(module_ + "." + name, {inputs, outputs}), name);
}

ValueId MaxTextLayer::add(ValueId x, ValueId y, std::string_view name) const { return runtime::add(builder_, x, y, name); }

ValueId MaxTextLayer::dropout(ValueId x, std::string_view name) const { return drop(builder_, model_, x, name); }

ValueId MaxTextLayer::dense(ValueId x, const Kernel& kernel) const {
  const std::string name = module_ + "." + kernel.path;
  const ValueId weight = builder_.parameter(name + ".kernel", {kernel.inputs, kernel.outputs}, {.stored = {.shape = kernel.stored}});
  const ValueId y = runtime::linear_input_major(builder_, x, weight, kernel.path);
  if (!kernel.bias) return y;
  const runtime::ParameterForm form{.dtype = kernels::DType::f32, .stored = {.shape = kernel.stored_bias}};
  return runtime::add_bias(builder_, y, builder_.parameter(name + ".bias", {kernel.outputs}, form), kernel.path + "_bias");
}

ValueId MaxTextLayer::attention(ValueId x) const {
  const AttentionSpec& spec = spec_.attention();
  const std::int64_t width = model_.width, heads = spec.heads, kv_heads = spec.kv_heads, h = spec.head_dim;
  ValueId q_plain, k_plain, v;
  if (spec.fused) {
    const ValueId qkv = dense(x, {.path = "self_attention.qkv_proj",
                                  .inputs = width,
                                  .outputs = 3 * heads * h,
                                  .stored = blocks_.split_axis ? Shape{width, 3, heads, h} : Shape{width, 3 * heads, h},
                                  .bias = spec.qkv_bias,
                                  .stored_bias = {3, heads, h}});
    const auto parts = runtime::split(builder_, qkv, {heads * h, heads * h, heads * h}, "self_attention.split");
    q_plain = parts[0], k_plain = parts[1], v = parts[2];
  } else {
    const auto project = [&](const char* name, std::int64_t count) {
      return dense(x, {.path = fmt::format("self_attention.{}", name),
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
  const ValueId q = rotated(builder_, q_plain, spec, "self_attention.query_rope");
  const ValueId k = rotated(builder_, k_plain, spec, "self_attention.key_rope");
  builder_.label(q, "query_proj");
  builder_.label(k, "key_proj");
  builder_.label(v, "value_proj");
  const ValueId context =
      runtime::attention(builder_, q, k, v, builder_.batch("segments"), attention_form(spec), "self_attention.attention");
  builder_.label(context, "context");
  builder_.label(context, "attention_out");
  const ValueId out = dense(context, {.path = "self_attention.out",
                                      .inputs = heads * h,
                                      .outputs = width,
                                      .stored = {heads, h, width},
                                      .bias = spec.out_bias,
                                      .stored_bias = {width}});
  builder_.label(out, "out_proj");
  return out;
}

ValueId MaxTextLayer::mlp(ValueId x) const {
  const MlpSpec& spec = spec_.mlp();
  const std::int64_t width = model_.width, inner = spec.width;
  const auto in = [&](const char* name, std::int64_t parts, Shape stored) {
    return dense(x, {.path = fmt::format("mlp.{}", name),
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
    hidden = runtime::activate(builder_, spec.activation, plain, "mlp.activation");
  } else {
    ValueId gate, up;
    if (spec.fused) {
      const auto parts = runtime::split(builder_, in("wi", 2, {width, 2, inner}), {inner, inner}, "mlp.split");
      gate = parts[0], up = parts[1];
    } else {
      gate = in("wi_0", 1, {width, inner});
      up = in("wi_1", 1, {width, inner});
    }
    builder_.label(gate, "mlpwi_0");
    builder_.label(up, "mlpwi_1");
    hidden = runtime::glu(builder_, spec.activation, gate, up, "mlp.activation");
  }
  const ValueId out =
      dense(dropout(hidden, "mlp.dropout"),
            {.path = "mlp.wo", .inputs = inner, .outputs = width, .stored = {inner, width}, .bias = spec.bias, .stored_bias = {width}});
  builder_.label(out, "mlpwo");
  return out;
}

namespace {

/// Checks the relations between the members of a config.
void check(const ModelConfig& config, const MaxTextBlocks& blocks) {
  const auto expect = [&](bool fits, const char* name, std::int64_t value, std::string_view what) {
    MILLRACE_CHECK(fits, ExitCode::model, maxtext_component, "{}: {} = {}, expected {}", config.family, name, value, what);
  };
  for (const auto& [name, value] : {std::pair{"vocab_size", config.vocab_size},
                                    {"hidden_size", config.hidden_size},
                                    {"intermediate_size", config.intermediate_size},
                                    {"layers", config.layers},
                                    {"heads", config.heads},
                                    {"kv_heads", config.kv_heads},
                                    {"head_dim", config.head_dim}})
    expect(value >= 1, name, value, "1 or more");
  expect(config.heads % config.kv_heads == 0, "kv_heads", config.kv_heads, fmt::format("a divisor of heads = {}", config.heads));
  expect(config.head_dim % 2 == 0, "head_dim", config.head_dim, "an even number");
  expect(!config.fused_qkv || config.heads == config.kv_heads, "kv_heads", config.kv_heads,
         fmt::format("heads = {} with fused_qkv", config.heads));
  MILLRACE_CHECK(!config.fused_qkv || !config.share_kv, ExitCode::model, maxtext_component,
                 "{}: fused_qkv and share_kv together, expected one of them", config.family);
  MILLRACE_CHECK(config.dropout_rate >= 0 && config.dropout_rate < 1, ExitCode::model, maxtext_component,
                 "{}: dropout_rate = {}, expected from 0 to below 1", config.family, config.dropout_rate);
  expect(!config.sinusoidal_positions || config.hidden_size % 2 == 0, "hidden_size", config.hidden_size,
         "an even number with sinusoidal_positions");
  MILLRACE_CHECK(config.tie_word_embeddings || config.final_logit_softcapping == 0, ExitCode::model, maxtext_component,
                 "{}: final_logit_softcapping = {} without tie_word_embeddings, expected 0: MaxText caps logits of tied tables only",
                 config.family, config.final_logit_softcapping);
  MILLRACE_CHECK(!blocks.equal_heads || (config.heads == config.kv_heads && !config.share_kv), ExitCode::model, maxtext_component,
                 "{}: heads = {}, kv_heads = {}, share_kv = {}, expected as many kv_heads as heads, each with values of its own",
                 config.family, config.heads, config.kv_heads, config.share_kv);
}

}  // namespace

MaxTextFamily::MaxTextFamily(std::string_view name, MaxTextBlocks blocks, std::initializer_list<std::string_view> keys)
    : traits_{.name = name,
              .numerics = "maxtext",
              .config_type = name,
              .keys = {"model.final_logit_softcapping", "model.learned_positions", "model.sinusoidal_positions",
                       "model.normalize_embedding_logits", "model.dropout_rate"}},
      blocks_(blocks) {
  traits_.keys.insert(traits_.keys.end(), keys);
  if (blocks.attention) {
    for (const char* key : {"model.activation", "model.gated_mlp", "model.fused_qkv", "model.fused_mlp", "model.share_kv"})
      traits_.keys.emplace_back(key);
  }
  if (blocks.attention && blocks.rotary) {
    for (const char* key : {"model.rope", "model.rope_theta", "model.rope_factor", "model.rope_low_freq_factor",
                            "model.rope_high_freq_factor", "model.rope_original_max_position", "model.rope_interleaved"})
      traits_.keys.emplace_back(key);
  }
}

ModelSpec MaxTextFamily::resolve(const ModelConfig& config) const {
  check(config, blocks_);
  ModelSpec model;
  model.vocab_size = config.vocab_size;
  model.width = config.hidden_size;
  model.norm = {config.rms_norm_eps, blocks_.layer_norm ? 1.0 : 0.0, true};
  model.learned_positions = config.learned_positions;
  model.sinusoidal_positions = config.sinusoidal_positions;
  model.tied = config.tie_word_embeddings;
  if (model.tied && config.normalize_embedding_logits) model.head_scale = 1.0F / std::sqrt(static_cast<float>(config.hidden_size));
  model.logit_cap = config.final_logit_softcapping;
  model.dropout_rate = config.dropout_rate;
  AttentionSpec attention;
  attention.heads = config.heads;
  attention.kv_heads = config.kv_heads;
  attention.head_dim = config.head_dim;
  if (blocks_.rotary) attention.rope = config.rope;
  attention.interleaved = config.rope_interleaved;
  if (!blocks_.scale_in_weights) attention.scale = 1.0F / std::sqrt(static_cast<float>(config.head_dim));
  attention.soft_cap = config.attn_logit_softcapping;
  attention.qkv_bias = attention.out_bias = blocks_.bias;
  attention.fused = config.fused_qkv;
  attention.share_kv = config.share_kv;
  const MlpSpec mlp{.width = config.intermediate_size,
                    .activation = config.activation,
                    .gated = config.gated_mlp,
                    .bias = blocks_.bias,
                    .fused = config.fused_mlp};
  LayerSpec layer{.ffn = mlp, .norms = blocks_.norms};
  if (blocks_.attention) layer.mixer = attention;
  model.layers.assign(static_cast<std::size_t>(config.layers), layer);
  return model;
}

Streams MaxTextFamily::embed(ProgramBuilder& builder, const ModelSpec& model) const {
  ValueId x = drop(builder, model, token_embedding(builder, model.vocab_size, model.width, token_table), "embedding_dropout");
  if (model.sinusoidal_positions) {
    const std::int64_t half = model.width / 2;
    std::vector<float> inverse_timescales(static_cast<std::size_t>(half));
    const float step = std::log(10000.0F) / static_cast<float>(std::max<std::int64_t>(half - 1, 1));
    for (std::size_t i = 0; i < inverse_timescales.size(); ++i) inverse_timescales[i] = std::exp(static_cast<float>(i) * -step);
    x = runtime::add_sinusoid(builder, x, builder.batch("positions"), builder.constant("inverse_timescales", std::move(inverse_timescales)),
                              "sinusoid");
  }
  if (model.learned_positions > 0) {
    MILLRACE_CHECK(builder.options().sequence <= model.learned_positions, ExitCode::model, maxtext_component,
                   "{}: rows of {} tokens, expected at most learned_positions = {}", traits_.name, builder.options().sequence,
                   model.learned_positions);
    x = runtime::add(builder, x, position_embedding(builder, model.learned_positions, model.width, position_table), "embeddings");
  }
  return x;
}

ValueId MaxTextFamily::head(ProgramBuilder& builder, const ModelSpec& model, const Streams& x, bool want_logits, double z_loss) const {
  builder.label(x, "decoder_output");
  const ValueId normed = norm_of(builder, blocks_, model, x, "decoder.decoder_norm", "decoder_norm");
  builder.label(normed, "final_norm");
  const ValueId h = drop(builder, model, normed, "final_dropout");
  HeadTable table{.name = "decoder.logits_dense.kernel", .vocabulary = model.vocab_size, .width = model.width, .stored_transposed = true};
  kernels::CrossEntropyOptions form{.z_loss = static_cast<float>(z_loss)};
  if (model.tied) {
    table = {.name = token_table, .vocabulary = model.vocab_size, .width = model.width, .use = 1};
    form.round_table = true;
    form.soft_cap = static_cast<float>(model.logit_cap);
    form.scale = model.head_scale;
  }
  return output_head(builder, h, table, form, want_logits);
}

Initial MaxTextFamily::initial(const ModelSpec& model, const std::string& name, const Shape& shape) const {
  if (name == token_table || name == position_table) return {InitialKind::normal, 1.0};
  if (name.ends_with(".bias")) return {InitialKind::zeros};
  if (shape.rank() == 1) return {model.norm.offset == 0 ? InitialKind::ones : InitialKind::zeros};
  const bool head = name == "decoder.logits_dense.kernel";  // programs have it transposed
  const double deviation = 1.0 / std::sqrt(static_cast<double>(shape[head ? 1 : 0]));
  if (name.find(".self_attention.") == std::string::npos) return {InitialKind::truncated_normal, deviation / truncated_deviation};
  if (!name.ends_with(".query.kernel") || !blocks_.scale_in_weights) return {InitialKind::normal, deviation};
  return {InitialKind::normal, deviation / std::sqrt(static_cast<double>(model.layers.front().attention().head_dim))};
}

bool MaxTextFamily::recognises(runtime::JsonReader& reader) const { return reader.text("decoder_block") == std::string(traits_.name); }

void MaxTextFamily::read_config(runtime::JsonReader& reader, ConfigFile& file) const {
  file.model = read_maxtext(reader,
                            {.name = std::string(traits_.name),
                             .attention = blocks_.attention,
                             .rotary = blocks_.attention && blocks_.rotary,
                             .caps_scores = traits_.reads("model.attn_logit_softcapping")},
                            file.z_loss);
}

runtime::OrderedJson MaxTextFamily::config_json(const ConfigFile& file, std::string_view dtype) const {
  return maxtext_json(file.model, dtype, file.z_loss);
}

MaxTextLayer MaxTextFamily::begin_layer(ProgramBuilder& builder, const ModelSpec& model, int index, ValueId x) const {
  builder.label(x, "decoder_layer_input");
  return {builder, blocks_, model, index};
}

}  // namespace millrace::layers
