#include "layers/formats/maxtext/config.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "layers/formats/maxtext/chunks.hpp"
#include "layers/formats/maxtext/engram.hpp"
#include "layers/formats/maxtext/experts.hpp"
#include "layers/formats/maxtext/full_layers.hpp"
#include "layers/formats/maxtext/keys.hpp"
#include "layers/formats/maxtext/latent.hpp"
#include "layers/formats/maxtext/linear_attention.hpp"
#include "layers/formats/maxtext/moba.hpp"

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

/// GPT-OSS's gate, whose activation is σ.
void read_clamped_gate(JsonReader& reader, const MaxTextFile& file, ModelConfig& model) {
  const Json* list = reader.find("mlp_activations");
  if (list == nullptr || *list != Json{"sigmoid", "linear"})
    reader.refuse("mlp_activations", fmt::format("supported by decoder_block \"{}\" is [\"sigmoid\", \"linear\"]", file.block));
  const auto limit = reader.number("mlp_activations_limit", -1e9, 1e9);
  if (!limit || *limit <= 0) reader.refuse("mlp_activations_limit", "expected a number above 0");
  model.swiglu_limit = *limit;
}

/// MaxText selects some parts of a block by the name of the model. Returns that name.
std::string read_model_name(JsonReader& reader, const MaxTextFile& file, ModelConfig& model) {
  const std::string name = reader.text("model_name").value_or("default");
  if (!file.model_names.empty() && std::ranges::find(file.model_names, name) == file.model_names.end())
    reader.refuse("model_name", fmt::format("supported by decoder_block \"{}\" are {}", file.block, fmt::join(file.model_names, ", ")));
  const bool norms = std::ranges::any_of(file.fixed, [](const FixedKey& key) { return key.key == "use_qk_norm" && key.value == true; });
  if (norms && file.model_names.empty() && name.starts_with("olmo3"))
    reader.refuse("model_name", "which norms queries over all heads, supported are names of other models");
  if (!file.scaled_by_width.empty() && name == file.scaled_by_width) {
    const auto width = reader.integer("base_emb_dim", 1, 1 << 20).value_or(model.hidden_size);
    const auto heads = reader.integer("base_num_query_heads", 1, 1 << 16).value_or(model.heads);
    if (width < heads) reader.refuse("base_emb_dim", fmt::format("expected base_num_query_heads = {} or more", heads));
    model.query_pre_attn_scalar = static_cast<double>(width / heads);
  }
  return name;
}

/// Reads YaRN's numbers. MaxText returns interleaved pairs as halves; scores do not depend on the order of the features, so that these are
/// the interleaved pairs of other rotations.
void read_yarn(JsonReader& reader, ModelConfig& model) {
  model.rope.kind = RopeKind::yarn;
  model.rope.factor = read_number(reader, "rope_factor", 1, 1e6, 40);
  model.rope.beta_fast = read_number(reader, "beta_fast", 1e-6, 1e6, 32);
  model.rope.beta_slow = read_number(reader, "beta_slow", 1e-6, 1e6, 1);
  refuse_null(reader, "original_max_position_embeddings");
  model.rope.original_max_position = reader.size("original_max_position_embeddings", 1LL << 40, 4096);
  model.rope.truncate = read_switch(reader, "rope_truncate", true);
  model.rope.attention_factor = reader.boolean("rope_attention_scaling").value_or(false) ? 0 : 1;
  model.rope_interleaved = read_switch(reader, "rope_interleave", true);
}

/// Reads rope_type, which a model_name can imply: llama3.1 means that pairs are neighbours and, unless rope_use_scale is false,
/// that frequencies are scaled as in Llama 3 with fixed numbers. If pairs are halves of the head, nothing is scaled, and
/// rope_use_scale has no effect.
void read_maxtext_rope(JsonReader& reader, const MaxTextFile& file, const std::string& name, ModelConfig& model) {
  model.rope.theta = read_number(reader, "rope_max_timescale", 1.0, 1e15, 10000.0);
  const std::string kind = reader.text("rope_type").value_or("default");
  const bool scaled = read_switch(reader, "rope_use_scale", true);
  model.rope_interleaved = kind.starts_with("llama3.1") || name.starts_with("llama3.1");
  if (model.rope_interleaved) {
    if (!scaled) return;
    model.rope.kind = RopeKind::llama3;
    model.rope.factor = 8;
    model.rope.low_freq_factor = 1;
    model.rope.high_freq_factor = 4;
    model.rope.original_max_position = 8192;
  } else if (file.yarn && kind == "yarn") {
    read_yarn(reader, model);
  } else if (kind != "default") {
    reader.refuse("rope_type",
                  file.yarn ? "supported are \"default\", \"llama3.1\" and \"yarn\"" : "supported are \"default\" and \"llama3.1\"");
  }
}

/// Reads the window, which layers have it, and the base that they rotate by. Only MaxText's default rotation has numbers of its own in
/// sliding layers, and only it is stretched by a linear factor, which sliding layers ignore.
void read_windows(JsonReader& reader, const MaxTextFile& file, const std::string& name, ModelConfig& model) {
  model.sliding_window = reader.size("sliding_window_size", 1LL << 40);
  const std::vector<LayerKind>& kinds = kinds_under_name(file, name);
  for (std::int64_t i = 0; !kinds.empty() && i < model.layers; ++i)
    model.layer_kinds.push_back(kinds[static_cast<std::size_t>(i) % kinds.size()]);
  const bool is_default = model.rope.kind == RopeKind::none && !model.rope_interleaved;
  const double local = read_number(reader, "local_rope_max_timescale", -1, 1e15, -1);
  if (local > 0 && local < 1) reader.refuse("local_rope_max_timescale", "expected 1 or more, or -1");
  if (local > 0 && !is_default) reader.refuse("local_rope_max_timescale", "supported is -1 unless rope_type is \"default\"");
  if (local > 0) model.rope_local.theta = local;
  if (!file.linear_rope) return;
  const double factor = read_number(reader, "rope_linear_scaling_factor", 1, 1e6, 1);
  if (factor == 1) return;
  if (!is_default) reader.refuse("rope_linear_scaling_factor", "supported is 1.0 unless rope_type is \"default\"");
  model.rope.kind = RopeKind::linear;
  model.rope.factor = factor;
  if (local <= 0) model.rope_local.theta = model.rope.theta;
}

/// The rotation's keys. The numbers of kinds that the block does not have are left out.
void write_rope(OrderedJson& json, const ModelConfig& model, const MaxTextFile& file) {
  const bool yarn = file.yarn && model.rope.kind == RopeKind::yarn, llama3 = model.rope_interleaved && !yarn;
  json["rope_type"] = yarn ? "yarn" : llama3 ? "llama3.1" : "default";
  json["rope_max_timescale"] = model.rope.theta;
  json["rope_use_scale"] = !llama3 || model.rope.kind == RopeKind::llama3;
  if (yarn) {
    json["rope_factor"] = model.rope.factor;
    json["beta_fast"] = model.rope.beta_fast;
    json["beta_slow"] = model.rope.beta_slow;
    json["original_max_position_embeddings"] = model.rope.original_max_position;
    json["rope_truncate"] = model.rope.truncate;
    json["rope_attention_scaling"] = model.rope.attention_factor == 0;
    json["rope_interleave"] = model.rope_interleaved;
  }
  if (file.linear_rope) json["rope_linear_scaling_factor"] = model.rope.kind == RopeKind::linear ? model.rope.factor : 1.0;
  if (!file.windows) return;
  json["sliding_window_size"] = model.sliding_window;
  json["local_rope_max_timescale"] = model.rope_local.theta > 0 ? model.rope_local.theta : -1;
}

/// The model_name that selects the parts of the block which this model has.
std::string model_name_of(const ModelConfig& model, const MaxTextFile& file) {
  if (file.experts && !file.experts->choosing_name.empty()) return choosing_model_name(model, *file.experts);
  if (file.model_names.empty()) return "default";
  if (!file.kinds_by_name.empty()) return name_with_kinds(file, model);
  const bool by_head = model.query_pre_attn_scalar == 0 || model.query_pre_attn_scalar == static_cast<double>(model.head_dim);
  return by_head || file.scaled_by_width.empty() ? file.model_names.front() : file.scaled_by_width;
}

}  // namespace

bool is_maxtext(JsonReader& reader) { return reader.find("decoder_block") != nullptr; }

ModelConfig read_maxtext(JsonReader& reader, const MaxTextFile& file, runtime::LossWeights& losses) {
  ModelConfig model;
  const bool clamped = file.experts && file.experts->clamped;
  model.numerics = "maxtext";
  model.family = file.block;
  check_maxtext_keys(reader, file);
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
  losses.z_loss = reader.number("z_loss_multiplier", 0, 1e3).value_or(0);
  if (file.attention) {
    model.fused_qkv = reader.boolean("fused_qkv").value_or(false);
    model.fused_mlp = reader.boolean("fused_mlp").value_or(false);
    model.share_kv = reader.boolean("share_kv_projections").value_or(false);
    if (model.share_kv && !file.shares_kv) reader.refuse("share_kv_projections", "supported is false");
    model.attn_logit_softcapping = reader.number("attn_logits_soft_cap", 0, 1e9).value_or(0);
    if (clamped)
      read_clamped_gate(reader, file, model);
    else
      read_activations(reader, model);
    read_moba(reader, model);
  } else {
    pass_over(reader, {"fused_qkv", "fused_mlp", "share_kv_projections", "attn_logits_soft_cap", "mlp_activations"});
  }
  read_maxtext_experts(reader, file, model, losses);
  const std::string name = read_model_name(reader, file, model);
  if (file.rotary) {
    read_maxtext_rope(reader, file, name, model);
  } else {
    pass_over(reader, {"rope_max_timescale", "rope_type", "rope_use_scale"});
  }
  if (file.windows) read_windows(reader, file, name, model);
  read_maxtext_full_layers(reader, file, model);
  read_maxtext_per_layer_inputs(reader, file, model);
  read_maxtext_latent(reader, file, model, losses);
  read_maxtext_linear_attention(reader, file, model);
  if (file.chunks) read_maxtext_chunks(reader, model);
  if (file.hyper) {
    model.mhc_expansion_rate = reader.integer("mhc_expansion_rate", 1, 64).value_or(1);
    model.mhc_lite = reader.boolean("enable_mhc_lite").value_or(false) && model.mhc_expansion_rate > 1;
    const std::int64_t iterations = reader.integer("sinkhorn_iterations", 1, 1 << 20).value_or(20);
    if (model.mhc_expansion_rate > 1 && !model.mhc_lite) model.sinkhorn_iterations = iterations;
  }
  read_maxtext_engram(reader, file, model);
  if (!file.per_layer_inputs) model.mtp_layers = reader.integer("mtp_num_layers", 0, 64).value_or(0);
  if (model.mtp_layers > 0) losses.mtp_loss = reader.number("mtp_loss_scaling_factor", 0, 1e3).value_or(0.1);
  return model;
}

OrderedJson maxtext_json(const ModelConfig& model, const MaxTextFile& file, std::string_view dtype, const runtime::LossWeights& losses) {
  OrderedJson json;
  json["decoder_block"] = model.family;
  json["model_name"] = model_name_of(model, file);
  json["vocab_size"] = model.vocab_size;
  json["emb_dim"] = model.hidden_size;
  json["mlp_dim"] = model.intermediate_size;
  json["num_decoder_layers"] = model.layers;
  json["num_query_heads"] = model.heads;
  json["num_kv_heads"] = model.kv_heads;
  json["head_dim"] = model.head_dim;
  json["mlp_activations"] = {to_string(model.activation)};
  if (model.gated_mlp) json["mlp_activations"].push_back("linear");
  if (file.experts && file.experts->clamped) {
    json["mlp_activations"] = {"sigmoid", "linear"};
    json["mlp_activations_limit"] = model.swiglu_limit;
  }
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
  write_rope(json, model, file);
  if (file.attention) write_moba(json, model);
  if (file.chunks) write_maxtext_chunks(json, model);
  write_maxtext_full_layers(json, file, model);
  write_maxtext_per_layer_inputs(json, file, model);
  write_maxtext_experts(json, file, model, losses);
  write_maxtext_latent(json, file, model, losses);
  write_maxtext_linear_attention(json, file, model);
  if (file.hyper) {
    json["mhc_expansion_rate"] = model.mhc_expansion_rate;
    json["sinkhorn_iterations"] = model.sinkhorn_iterations;
    json["enable_mhc_lite"] = model.mhc_lite;
  }
  write_maxtext_engram(json, file, model);
  if (!file.per_layer_inputs) json["mtp_num_layers"] = model.mtp_layers;
  if (model.mtp_layers > 0) json["mtp_loss_scaling_factor"] = losses.mtp_loss;
  json["z_loss_multiplier"] = losses.z_loss;
  json["dropout_rate"] = model.dropout_rate;
  for (const FixedKey& fixed : maxtext_fixed_keys(file)) json[fixed.key] = fixed.value;
  json["weight_dtype"] = dtype;
  return json;
}

}  // namespace millrace::layers
