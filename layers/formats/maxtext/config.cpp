#include "layers/formats/maxtext/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "layers/formats/maxtext/keys.hpp"

namespace millrace::layers {
namespace {

using kernels::Activation;
using runtime::Json;
using runtime::JsonReader;
using runtime::OrderedJson;

constexpr std::array maxtext_activations = {Activation::silu, Activation::gelu, Activation::relu};

/// A key that may be missing, but not null: Python would take null for false, or fail on it.
void refuse_null(JsonReader& reader, const char* key) {
  if (reader.has(key) && reader.find(key) == nullptr) reader.refuse(key, "expected a value");
}

bool read_switch(JsonReader& reader, const char* key, bool missing) {
  if (missing) refuse_null(reader, key);
  return reader.boolean(key).value_or(missing);
}

double read_number(JsonReader& reader, const char* key, double min, double max, double missing) {
  refuse_null(reader, key);
  return reader.number(key, min, max).value_or(missing);
}

/// Marks keys as read that have no effect in a block without the part they describe.
void pass_over(JsonReader& reader, std::initializer_list<const char*> keys) {
  for (const char* key : keys) static_cast<void>(reader.find(key));
}

void read_activations(JsonReader& reader, ModelConfig& model) {
  refuse_null(reader, "mlp_activations");
  const Json* list = reader.find("mlp_activations");
  if (list == nullptr) return;
  const bool strings = list->is_array() && !list->empty() && list->size() <= 2 &&
                       std::ranges::all_of(*list, [](const Json& entry) { return entry.is_string(); });
  constexpr const char* supported = "supported are [f] and [f, \"linear\"] with f \"silu\", \"gelu\" or \"relu\"";
  if (!strings) reader.refuse("mlp_activations", supported);
  const auto name = list->front().get<std::string>();
  const auto* const known =
      std::ranges::find(maxtext_activations, name, [](Activation activation) { return std::string(to_string(activation)); });
  model.gated_mlp = list->size() == 2;
  if (known == maxtext_activations.end() || (model.gated_mlp && list->back() != "linear")) reader.refuse("mlp_activations", supported);
  model.activation = *known;
}

/// Reads rope_type, which a model_name can imply: llama3.1 means that pairs are neighbours and, unless rope_use_scale is false,
/// that frequencies are scaled as in Llama 3 with fixed numbers. If pairs are halves of the head, nothing is scaled, and
/// rope_use_scale has no effect.
void read_maxtext_rope(JsonReader& reader, ModelConfig& model) {
  model.rope.theta = read_number(reader, "rope_max_timescale", 1.0, 1e15, 10000.0);
  const std::string kind = reader.text("rope_type").value_or("default");
  const std::string name = reader.text("model_name").value_or("default");
  const bool scaled = read_switch(reader, "rope_use_scale", true);
  model.rope_interleaved = kind.starts_with("llama3.1") || name.starts_with("llama3.1");
  if (!model.rope_interleaved && kind != "default") reader.refuse("rope_type", "supported are \"default\" and \"llama3.1\"");
  if (!model.rope_interleaved || !scaled) return;
  model.rope.kind = RopeKind::llama3;
  model.rope.factor = 8;
  model.rope.low_freq_factor = 1;
  model.rope.high_freq_factor = 4;
  model.rope.original_max_position = 8192;
}

}  // namespace

bool is_maxtext(JsonReader& reader) { return reader.find("decoder_block") != nullptr; }

ModelConfig read_maxtext(JsonReader& reader, const MaxTextBlock& block, double& z_loss) {
  ModelConfig model;
  model.numerics = "maxtext";
  model.family = block.name;
  check_maxtext_keys(reader, block);
  model.vocab_size = reader.size("vocab_size", 1 << 26);
  model.hidden_size = reader.size("emb_dim", 1 << 20);
  model.intermediate_size = reader.size("mlp_dim", 1 << 24);
  model.layers = reader.size("num_decoder_layers", max_layers);
  model.heads = reader.size("num_query_heads", 1 << 16);
  model.kv_heads = reader.size("num_kv_heads", 1 << 16);
  model.head_dim = reader.size("head_dim", 1 << 16);
  model.rms_norm_eps = read_number(reader, "normalization_layer_epsilon", 0.0, 1.0, 1e-5);
  model.max_position_embeddings = reader.integer("max_position_embeddings", 1, 1LL << 40).value_or(163840);
  model.learned_positions = std::max<std::int64_t>(0, reader.integer("trainable_position_size", -1, 1LL << 30).value_or(-1));
  model.sinusoidal_positions = reader.boolean("use_untrainable_positional_embedding").value_or(false);
  model.tie_word_embeddings = reader.boolean("logits_via_embedding").value_or(false);
  model.normalize_embedding_logits = read_switch(reader, "normalize_embedding_logits", true);
  model.final_logit_softcapping = reader.number("final_logits_soft_cap", 0, 1e9).value_or(0);
  if (model.final_logit_softcapping > 0 && !model.tie_word_embeddings)
    reader.refuse("final_logits_soft_cap", "supported with logits_via_embedding = true: MaxText caps the logits of tied tables only");
  // MaxText sets enable_dropout for training runs; true if the file lacks it.
  model.dropout_rate = read_switch(reader, "enable_dropout", true) ? reader.number("dropout_rate", 0, 0.999).value_or(0) : 0;
  pass_over(reader, {"dropout_rate"});
  z_loss = reader.number("z_loss_multiplier", 0, 1e3).value_or(0);
  if (block.attention) {
    model.fused_qkv = reader.boolean("fused_qkv").value_or(false);
    model.fused_mlp = reader.boolean("fused_mlp").value_or(false);
    model.share_kv = reader.boolean("share_kv_projections").value_or(false);
    model.attn_logit_softcapping = reader.number("attn_logits_soft_cap", 0, 1e9).value_or(0);
    read_activations(reader, model);
  } else {
    pass_over(reader, {"fused_qkv", "fused_mlp", "share_kv_projections", "attn_logits_soft_cap", "mlp_activations"});
  }
  if (block.rotary) {
    read_maxtext_rope(reader, model);
  } else {
    pass_over(reader, {"rope_max_timescale", "rope_type", "model_name", "rope_use_scale"});
  }
  return model;
}

OrderedJson maxtext_json(const ModelConfig& model, std::string_view dtype, double z_loss) {
  OrderedJson json;
  json["decoder_block"] = model.family;
  json["model_name"] = "default";
  json["vocab_size"] = model.vocab_size;
  json["emb_dim"] = model.hidden_size;
  json["mlp_dim"] = model.intermediate_size;
  json["num_decoder_layers"] = model.layers;
  json["num_query_heads"] = model.heads;
  json["num_kv_heads"] = model.kv_heads;
  json["head_dim"] = model.head_dim;
  json["mlp_activations"] = {to_string(model.activation)};
  if (model.gated_mlp) json["mlp_activations"].push_back("linear");
  json["normalization_layer_epsilon"] = model.rms_norm_eps;
  json["max_position_embeddings"] = model.max_position_embeddings;
  json["trainable_position_size"] = model.learned_positions > 0 ? model.learned_positions : -1;
  json["use_untrainable_positional_embedding"] = model.sinusoidal_positions;
  json["logits_via_embedding"] = model.tie_word_embeddings;
  json["normalize_embedding_logits"] = model.normalize_embedding_logits;
  json["fused_qkv"] = model.fused_qkv;
  json["fused_mlp"] = model.fused_mlp;
  json["share_kv_projections"] = model.share_kv;
  const auto cap = [](double value) { return value > 0 ? Json(value) : Json(nullptr); };
  json["attn_logits_soft_cap"] = cap(model.attn_logit_softcapping);
  json["final_logits_soft_cap"] = cap(model.final_logit_softcapping);
  json["rope_type"] = model.rope_interleaved ? "llama3.1" : "default";
  json["rope_max_timescale"] = model.rope.theta;
  json["rope_use_scale"] = !model.rope_interleaved || model.rope.kind == RopeKind::llama3;
  json["z_loss_multiplier"] = z_loss;
  json["dropout_rate"] = model.dropout_rate;
  for (const FixedKey& fixed : maxtext_fixed_keys()) json[fixed.key] = fixed.value;
  json["weight_dtype"] = dtype;
  return json;
}

}  // namespace millrace::layers
