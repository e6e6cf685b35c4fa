#include "layers/decoders/layer_builder.hpp"

#include <fmt/format.h>

#include <cmath>

#include "kernels/base/check.hpp"
#include "layers/embedding.hpp"
#include "layers/losses/cross_entropy.hpp"
#include "layers/mlp.hpp"
#include "layers/norm.hpp"
#include "layers/rotary.hpp"

namespace millrace::layers {
namespace {

using runtime::ProgramBuilder;
using runtime::ValueId;

constexpr const char* kTable = "model.embed_tokens.weight";

LayerKind kind_of(const ModelConfig& config, int index) {
  return config.layer_kinds.empty() ? LayerKind::full : config.layer_kinds.at(static_cast<std::size_t>(index));
}

}  // namespace

LayerBuilder::LayerBuilder(ProgramBuilder& builder, const ModelConfig& config, int index, runtime::RmsNormForm norms)
    : builder_(builder), config_(config), norms_(norms), kind_(kind_of(config, index)), module_(fmt::format("model.layers.{}", index)) {}

ValueId LayerBuilder::norm(ValueId x, const std::string& name) const {
  return rms_norm(builder_, x, config_.hidden_size, norms_, module_ + "." + name, name);
}

ValueId LayerBuilder::attention(ValueId x, AttentionStyle style) const {
  const bool sliding = kind_ == LayerKind::sliding;
  const bool local = sliding && config_.rope_local_theta > 0;
  const RopeConfig rope = local ? RopeConfig{.theta = config_.rope_local_theta} : config_.rope;
  const double scaled_by = config_.query_pre_attn_scalar > 0 ? config_.query_pre_attn_scalar : static_cast<double>(config_.head_dim);
  AttentionLayer layer;
  layer.width = config_.hidden_size;
  layer.heads = config_.heads;
  layer.kv_heads = config_.kv_heads;
  layer.form.head_dim = config_.head_dim;
  layer.form.scale = static_cast<float>(1.0 / std::sqrt(scaled_by));
  layer.form.soft_cap = static_cast<float>(config_.attn_logit_softcapping);
  layer.form.window = sliding ? config_.sliding_window : 0;
  layer.inverse_frequencies =
      builder_.constant(local ? "local_inverse_frequencies" : "inverse_frequencies", inverse_frequencies(rope, config_.head_dim));
  layer.rope.factor = rotary_factor(rope);
  layer.bias = style.bias;
  layer.norm = style.norm;
  layer.norm_form = norms_;
  return dot_product_attention(builder_, x, layer, module_ + ".self_attn");
}

ValueId LayerBuilder::mlp(ValueId x, kernels::Activation activation) const {
  return gated_mlp(builder_, x, activation, config_.hidden_size, config_.intermediate_size, module_ + ".mlp");
}

ValueId LayerBuilder::add(ValueId x, ValueId y, std::string_view branch) const {
  return runtime::add(builder_, x, y, fmt::format("{}_residual", branch));
}

void StandardDecoder::validate(const ModelConfig& config) const {
  constexpr const char* who = "layers.decoders";
  const auto positive = [&](const char* name, std::int64_t value) {
    MILLRACE_CHECK(value >= 1, ExitCode::model, who, "{}: {} = {}, expected 1 or more", family(), name, value);
  };
  positive("vocab_size", config.vocab_size);
  positive("hidden_size", config.hidden_size);
  positive("intermediate_size", config.intermediate_size);
  positive("layers", config.layers);
  positive("heads", config.heads);
  positive("kv_heads", config.kv_heads);
  MILLRACE_CHECK(config.heads % config.kv_heads == 0, ExitCode::model, who,
                 "{}: heads = {}, kv_heads = {}, expected heads a multiple of kv_heads", family(), config.heads, config.kv_heads);
  MILLRACE_CHECK(config.head_dim >= 2 && config.head_dim % 2 == 0, ExitCode::model, who, "{}: head_dim = {}, expected an even number",
                 family(), config.head_dim);
  const auto kinds = static_cast<std::int64_t>(config.layer_kinds.size());
  MILLRACE_CHECK(kinds == 0 || kinds == config.layers, ExitCode::model, who, "{}: kinds of {} layers are given, expected {}", family(),
                 kinds, config.layers);
  for (const LayerKind kind : config.layer_kinds)
    MILLRACE_CHECK(kind == LayerKind::full || config.sliding_window >= 1, ExitCode::model, who,
                   "{}: sliding_window = {} with sliding layers, expected 1 or more", family(), config.sliding_window);
}

ValueId StandardDecoder::embed(ProgramBuilder& builder, const ModelConfig& config) const {
  const ValueId x = token_embedding(builder, config.vocab_size, config.hidden_size, kTable);
  const double scale = embedding_scale(config);
  return scale == 1.0 ? x : runtime::scale(builder, x, scale, "embed_scale");
}

ValueId StandardDecoder::head(ProgramBuilder& builder, const ModelConfig& config, ValueId x, bool want_logits, double z_loss) const {
  const ValueId h = rms_norm(builder, x, config.hidden_size, norm_form(config), "model.norm", "norm");
  builder.label(h, "final_norm");
  const HeadTable table = config.tie_word_embeddings ? HeadTable{kTable, config.vocab_size, config.hidden_size, 1}
                                                     : HeadTable{"lm_head.weight", config.vocab_size, config.hidden_size, 0};
  const runtime::HeadForm form{.z_loss = static_cast<float>(z_loss), .soft_cap = static_cast<float>(config.final_logit_softcapping)};
  return output_head(builder, h, table, form, want_logits);
}

LayerBuilder StandardDecoder::begin_layer(ProgramBuilder& builder, const ModelConfig& config, int index, ValueId x) const {
  builder.label(x, "decoder_layer_input");
  return {builder, config, index, norm_form(config)};
}

runtime::RmsNormForm StandardDecoder::norm_form(const ModelConfig& config) const {
  return {.epsilon = static_cast<float>(config.rms_norm_eps)};
}

double StandardDecoder::embedding_scale(const ModelConfig&) const { return 1.0; }

}  // namespace millrace::layers
