#include "layers/decoders/maxtext_builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "kernels/base/check.hpp"
#include "layers/embedding.hpp"
#include "layers/losses/cross_entropy.hpp"
#include "layers/rotary.hpp"
#include "runtime/program/operations.hpp"

namespace millrace::layers {
namespace {

using kernels::Shape;
using runtime::ProgramBuilder;
using runtime::StoredForm;
using runtime::ValueId;

constexpr const char* who = "layers.maxtext";
constexpr const char* token_table = "token_embedder.embedding";
constexpr const char* position_table = "decoder.position_embedder.embedding";

/// MaxText divides what it draws within two deviations by the deviation that is left of a normal distribution cut there.
constexpr double truncated_deviation = 0.87962566103423978;

ValueId rms(ProgramBuilder& builder, const ModelConfig& config, ValueId x, const std::string& module, std::string_view name) {
  const ValueId weight = builder.parameter(module + ".scale", {config.hidden_size});
  return runtime::rms_norm(builder, x, weight, {.epsilon = static_cast<float>(config.rms_norm_eps)}, name);
}

ValueId drop(ProgramBuilder& builder, const ModelConfig& config, ValueId x, std::string_view name) {
  return config.dropout_rate > 0 ? runtime::dropout(builder, x, config.dropout_rate, name) : x;
}

}  // namespace

ValueId maxtext_layer_norm(ProgramBuilder& builder, const ModelConfig& config, ValueId x, const std::string& module,
                           std::string_view name) {
  const ValueId scale = builder.parameter(module + ".scale", {config.hidden_size});
  const ValueId bias = builder.parameter(module + ".bias", {config.hidden_size});
  return runtime::layer_norm(builder, x, scale, bias, {.epsilon = static_cast<float>(config.rms_norm_eps), .offset = 1.0F}, name);
}

/// A projection: `<layer>.<path>.kernel` and, where asked, `.bias`, stored with the axes that MaxText gives them.
struct MaxTextLayer::Kernel {
  std::string path;
  std::int64_t inputs = 0, outputs = 0;
  Shape stored;
  bool bias = false;
  Shape stored_bias = {};
};

MaxTextLayer::MaxTextLayer(ProgramBuilder& builder, const ModelConfig& config, int index)
    : builder_(builder), config_(config), module_(fmt::format("decoder.layers_{}", index)) {}

ValueId MaxTextLayer::norm(ValueId x, const std::string& name) const { return rms(builder_, config_, x, module_ + "." + name, name); }

ValueId MaxTextLayer::layer_norm(ValueId x, const std::string& name) const {
  return maxtext_layer_norm(builder_, config_, x, module_ + "." + name, name);
}

ValueId MaxTextLayer::product(ValueId x, const std::string& name, std::int64_t inputs, std::int64_t outputs) const {
  return runtime::linear_input_major(builder_, x, builder_.parameter(module_ + "." + name, {inputs, outputs}), name);
}

ValueId MaxTextLayer::add(ValueId x, ValueId y, std::string_view name) const { return runtime::add(builder_, x, y, name); }

ValueId MaxTextLayer::dropout(ValueId x, std::string_view name) const { return drop(builder_, config_, x, name); }

ValueId MaxTextLayer::dense(ValueId x, const Kernel& kernel) const {
  const std::string name = module_ + "." + kernel.path;
  const ValueId weight = builder_.parameter(name + ".kernel", {kernel.inputs, kernel.outputs}, StoredForm{kernel.stored});
  const ValueId y = runtime::linear_input_major(builder_, x, weight, kernel.path);
  if (!kernel.bias) return y;
  return runtime::add_bias(builder_, y, builder_.parameter(name + ".bias", {kernel.outputs}, StoredForm{kernel.stored_bias}),
                           kernel.path + "_bias");
}

ValueId MaxTextLayer::rotate(ValueId x, const std::string& name, const MaxTextAttention& style) const {
  if (!style.rotary) return x;
  const ValueId frequencies = builder_.constant("inverse_frequencies", inverse_frequencies(config_.rope, config_.head_dim));
  return runtime::rope(builder_, x, builder_.batch("positions"), frequencies, {.interleaved = config_.rope_interleaved},
                       "self_attention." + name + "_rope");
}

ValueId MaxTextLayer::attention(ValueId x, const MaxTextAttention& style) const {
  const std::int64_t width = config_.hidden_size, heads = config_.heads, kv_heads = config_.kv_heads, h = config_.head_dim;
  ValueId q_plain, k_plain, v;
  if (config_.fused_qkv) {
    const ValueId qkv = dense(x, {.path = "self_attention.qkv_proj",
                                  .inputs = width,
                                  .outputs = 3 * heads * h,
                                  .stored = style.split_axis ? Shape{width, 3, heads, h} : Shape{width, 3 * heads, h},
                                  .bias = style.bias,
                                  .stored_bias = {3, heads, h}});
    const auto parts = runtime::split(builder_, qkv, {heads * h, heads * h, heads * h}, "self_attention.split");
    q_plain = parts[0], k_plain = parts[1], v = parts[2];
  } else {
    const auto project = [&](const char* name, std::int64_t count) {
      return dense(x, {.path = fmt::format("self_attention.{}", name),
                       .inputs = width,
                       .outputs = count * h,
                       .stored = {width, count, h},
                       .bias = style.bias,
                       .stored_bias = {count, h}});
    };
    q_plain = project("query", heads);
    k_plain = project("key", kv_heads);
    v = config_.share_kv ? k_plain : project("value", kv_heads);
  }
  const ValueId q = rotate(q_plain, "query", style), k = rotate(k_plain, "key", style);
  builder_.label(q, "query_proj");
  builder_.label(k, "key_proj");
  builder_.label(v, "value_proj");
  const runtime::AttentionForm form{.head_dim = h,
                                    .scale = style.scale_in_weights ? 1.0F : 1.0F / std::sqrt(static_cast<float>(h)),
                                    .soft_cap = static_cast<float>(config_.attn_logit_softcapping)};
  const ValueId context = runtime::attention(builder_, q, k, v, builder_.batch("segments"), form, "self_attention.attention");
  builder_.label(context, "context");
  builder_.label(context, "attention_out");
  const ValueId out = dense(context, {.path = "self_attention.out",
                                      .inputs = heads * h,
                                      .outputs = width,
                                      .stored = {heads, h, width},
                                      .bias = style.bias,
                                      .stored_bias = {width}});
  builder_.label(out, "out_proj");
  return out;
}

ValueId MaxTextLayer::mlp(ValueId x, bool bias) const {
  const std::int64_t width = config_.hidden_size, inner = config_.intermediate_size;
  const auto in = [&](const char* name, std::int64_t parts, Shape stored) {
    return dense(x, {.path = fmt::format("mlp.{}", name),
                     .inputs = width,
                     .outputs = parts * inner,
                     .stored = stored,
                     .bias = bias,
                     .stored_bias = parts == 1 ? Shape{inner} : Shape{parts, inner}});
  };
  ValueId hidden;
  if (!config_.gated_mlp) {
    const ValueId plain = in("wi", 1, config_.fused_mlp ? Shape{width, 1, inner} : Shape{width, inner});
    builder_.label(plain, "mlpwi");
    hidden = runtime::activate(builder_, config_.activation, plain, "mlp.activation");
  } else {
    ValueId gate, up;
    if (config_.fused_mlp) {
      const auto parts = runtime::split(builder_, in("wi", 2, {width, 2, inner}), {inner, inner}, "mlp.split");
      gate = parts[0], up = parts[1];
    } else {
      gate = in("wi_0", 1, {width, inner});
      up = in("wi_1", 1, {width, inner});
    }
    builder_.label(gate, "mlpwi_0");
    builder_.label(up, "mlpwi_1");
    hidden = runtime::glu(builder_, config_.activation, gate, up, "mlp.activation");
  }
  const ValueId out =
      dense(dropout(hidden, "mlp.dropout"),
            {.path = "mlp.wo", .inputs = inner, .outputs = width, .stored = {inner, width}, .bias = bias, .stored_bias = {width}});
  builder_.label(out, "mlpwo");
  return out;
}

void MaxTextDecoder::validate(const ModelConfig& config) const {
  const auto wanted = [&](bool fits, const char* name, std::int64_t value, std::string_view what) {
    MILLRACE_CHECK(fits, ExitCode::model, who, "{}: {} = {}, expected {}", family(), name, value, what);
  };
  for (const auto& [name, value] : {std::pair{"vocab_size", config.vocab_size},
                                    {"hidden_size", config.hidden_size},
                                    {"intermediate_size", config.intermediate_size},
                                    {"layers", config.layers},
                                    {"heads", config.heads},
                                    {"kv_heads", config.kv_heads},
                                    {"head_dim", config.head_dim}})
    wanted(value >= 1, name, value, "1 or more");
  wanted(config.heads % config.kv_heads == 0, "kv_heads", config.kv_heads, fmt::format("a divisor of heads = {}", config.heads));
  wanted(config.head_dim % 2 == 0, "head_dim", config.head_dim, "an even number");
  wanted(!config.fused_qkv || config.heads == config.kv_heads, "kv_heads", config.kv_heads,
         fmt::format("heads = {} with fused_qkv", config.heads));
  MILLRACE_CHECK(!config.fused_qkv || !config.share_kv, ExitCode::model, who, "{}: fused_qkv and share_kv together, expected one of them",
                 family());
  MILLRACE_CHECK(config.dropout_rate >= 0 && config.dropout_rate < 1, ExitCode::model, who,
                 "{}: dropout_rate = {}, expected from 0 to below 1", family(), config.dropout_rate);
  wanted(!config.sinusoidal_positions || config.hidden_size % 2 == 0, "hidden_size", config.hidden_size,
         "an even number with sinusoidal_positions");
  MILLRACE_CHECK(config.tie_word_embeddings || config.final_logit_softcapping == 0, ExitCode::model, who,
                 "{}: final_logit_softcapping = {} without tie_word_embeddings, expected 0: MaxText caps logits of tied tables only",
                 family(), config.final_logit_softcapping);
}

ValueId MaxTextDecoder::embed(ProgramBuilder& builder, const ModelConfig& config) const {
  ValueId x = drop(builder, config, token_embedding(builder, config.vocab_size, config.hidden_size, token_table), "embedding_dropout");
  if (config.sinusoidal_positions) {
    const std::int64_t half = config.hidden_size / 2;
    std::vector<float> inverse_timescales(static_cast<std::size_t>(half));
    const float step = std::log(10000.0F) / static_cast<float>(std::max<std::int64_t>(half - 1, 1));
    for (std::size_t i = 0; i < inverse_timescales.size(); ++i) inverse_timescales[i] = std::exp(static_cast<float>(i) * -step);
    x = runtime::add_sinusoid(builder, x, builder.batch("positions"), builder.constant("inverse_timescales", std::move(inverse_timescales)),
                              "sinusoid");
  }
  if (config.learned_positions > 0) {
    MILLRACE_CHECK(builder.options().sequence <= config.learned_positions, ExitCode::model, who,
                   "{}: rows of {} tokens, expected at most learned_positions = {}", family(), builder.options().sequence,
                   config.learned_positions);
    x = runtime::add(builder, x, position_embedding(builder, config.learned_positions, config.hidden_size, position_table), "embeddings");
  }
  return x;
}

ValueId MaxTextDecoder::head(ProgramBuilder& builder, const ModelConfig& config, ValueId x, bool want_logits, double z_loss) const {
  builder.label(x, "decoder_output");
  const ValueId normed = final_norm(builder, config, x);
  builder.label(normed, "final_norm");
  const ValueId h = drop(builder, config, normed, "final_dropout");
  HeadTable table{
      .name = "decoder.logits_dense.kernel", .vocabulary = config.vocab_size, .width = config.hidden_size, .stored_transposed = true};
  runtime::HeadForm form{.z_loss = static_cast<float>(z_loss)};
  if (config.tie_word_embeddings) {
    table = {.name = token_table, .vocabulary = config.vocab_size, .width = config.hidden_size, .use = 1};
    form.round_table = true;
    form.soft_cap = static_cast<float>(config.final_logit_softcapping);
    if (config.normalize_embedding_logits) form.scale = 1.0F / std::sqrt(static_cast<float>(config.hidden_size));
  }
  return output_head(builder, h, table, form, want_logits);
}

ValueId MaxTextDecoder::final_norm(ProgramBuilder& builder, const ModelConfig& config, ValueId x) const {
  return rms(builder, config, x, "decoder.decoder_norm", "decoder_norm");
}

Initial MaxTextDecoder::initial(const ModelConfig& config, const std::string& name, const Shape& shape) const {
  if (name == token_table || name == position_table) return {InitialKind::normal, 1.0};
  if (name.ends_with(".bias")) return {InitialKind::zeros};
  if (shape.rank() == 1) return {InitialKind::ones};
  const bool head = name == "decoder.logits_dense.kernel";  // the one that programs see transposed
  const double deviation = 1.0 / std::sqrt(static_cast<double>(shape[head ? 1 : 0]));
  if (name.find(".self_attention.") == std::string::npos) return {InitialKind::truncated_normal, deviation / truncated_deviation};
  const bool query = name.ends_with(".query.kernel");
  return {InitialKind::normal, query && folds_query_scale() ? deviation / std::sqrt(static_cast<double>(config.head_dim)) : deviation};
}

MaxTextLayer MaxTextDecoder::begin_layer(ProgramBuilder& builder, const ModelConfig& config, int index, ValueId x) const {
  builder.label(x, "decoder_layer_input");
  return {builder, config, index};
}

}  // namespace millrace::layers
