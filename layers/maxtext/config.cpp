#include "layers/maxtext/config.hpp"

#include <algorithm>
#include <array>

#include "layers/config_file.hpp"

namespace millrace::layers {
namespace {

using kernels::Activation;

constexpr std::array blocks = {"default", "llama2", "gpt3", "simple", "simple_mlp"};
constexpr std::array activations = {Activation::silu, Activation::gelu, Activation::relu};

/// A key with the only value whose arithmetic is here; written out on export.
struct Fixed {
  const char* key;
  Json value;
};

const std::vector<Fixed>& fixed_keys() {
  static const std::vector<Fixed> keys = {
      {"activations_in_float32", false},
      {"attention_bias", false},
      {"attention_sink", false},
      {"attention_type", "global"},
      {"cast_logits_to_fp32", true},
      {"chunk_attn_window_size", 0},
      {"engram_layers", Json::array()},
      {"first_num_dense_layers", 0},
      {"float32_logits", false},
      {"float32_qk_product", false},
      {"inhomogeneous_layer_cycle_interval", 1},
      {"load_balance_loss_weight", 0.0},
      {"logits_dot_in_fp32", false},
      {"mhc_expansion_rate", 1},
      {"mlp_activations_limit", -1.0},
      {"mlp_bias", false},
      {"moba", false},
      {"mtp_num_layers", 0},
      {"nope_layer_interval", -1},
      {"num_experts", 1},
      {"partial_rotary_factor", 1.0},
      {"rope_linear_scaling_factor", 1.0},
      {"rope_min_timescale", 1},
      {"scan_layers", false},
      {"shared_experts", 0},
      {"sliding_window_size", 0},
      {"temperature_tuning", false},
      {"training_objective", "causal_lm"},
      {"use_indexer", false},
      {"use_mrope", false},
      {"use_post_attn_norm", false},
      {"use_post_ffw_norm", false},
      {"use_qk_norm", false},
  };
  return keys;
}

/// Keys of parts that the blocks here lack, of how and where MaxText runs, and what the derived sizes were derived from.
constexpr std::array without_effect = {
    "attention",
    "base_emb_dim",
    "base_mlp_dim",
    "base_moe_mlp_dim",
    "base_num_decoder_layers",
    "base_num_kv_heads",
    "base_num_query_heads",
    "beta_fast",
    "beta_slow",
    "capacity_factor",
    "dense_init_scale",
    "dtype",
    "enable_mhc_lite",
    "engram_head_dim",
    "engram_kernel_size",
    "engram_max_ngram_size",
    "engram_num_heads",
    "engram_seed",
    "engram_vocab_bases",
    "float32_gate_logits",
    "float32_weight_sum",
    "gdn_chunk_size",
    "gdn_conv_kernel_dim",
    "gdn_key_head_dim",
    "gdn_num_key_heads",
    "gdn_num_value_heads",
    "gdn_value_head_dim",
    "global_head_dim",
    "global_num_kv_heads",
    "global_rope_max_timescale",
    "global_rope_proportion",
    "grad_dtype",
    "gradient_clipping_threshold",
    "indexer_head_dim",
    "indexer_loss_scaling_factor",
    "indexer_n_heads",
    "indexer_sparse_training",
    "indexer_topk",
    "interleave_moe_layer_step",
    "kv_lora_rank",
    "local_rope_max_timescale",
    "matmul_precision",
    "max_target_length",
    "megablox",
    "moba_chunk_size",
    "moba_topk",
    "model_name",
    "moe_expert_input_dim",
    "moe_mlp_dim",
    "mrope_section",
    "mscale",
    "mtp_loss_scaling_factor",
    "n_routing_groups",
    "norm_topk_prob",
    "num_experts_per_tok",
    "num_vocab_tiling",
    "original_max_position_embeddings",
    "param_scan_axis",
    "q_lora_rank",
    "qk_nope_head_dim",
    "qk_norm_with_scale",
    "qk_rope_head_dim",
    "rope_attention_scaling",
    "rope_factor",
    "rope_interleave",
    "rope_truncate",
    "rope_use_scale",
    "routed_bias",
    "routed_bias_update_rate",
    "routed_scaling_factor",
    "routed_score_func",
    "sinkhorn_iterations",
    "sparse_matmul",
    "topk_routing_group",
    "use_iota_embed",
    "use_qk_norm_in_gdn",
    "use_random_routing",
    "v_head_dim",
    "v_norm_with_scale",
    "weight_dtype",
};

void refuse_what_is_not_computed(JsonReader& reader) {
  for (const Fixed& fixed : fixed_keys()) {
    const Json* value = reader.find(fixed.key);
    // MaxText writes "off" as null, 0 or its default alike.
    if (value != nullptr && *value != fixed.value) reader.refuse(fixed.key, fmt::format("supported is {}", fixed.value.dump()));
  }
  for (const char* key : without_effect) static_cast<void>(reader.find(key));
}

void read_activations(JsonReader& reader, ModelConfig& model) {
  const Json* list = reader.find("mlp_activations");
  if (list == nullptr) return;
  const bool strings = list->is_array() && !list->empty() && list->size() <= 2 &&
                       std::ranges::all_of(*list, [](const Json& entry) { return entry.is_string(); });
  constexpr const char* wanted = "supported are [f] and [f, \"linear\"] with f \"silu\", \"gelu\" or \"relu\"";
  if (!strings) reader.refuse("mlp_activations", wanted);
  const auto name = list->front().get<std::string>();
  const auto* const known = std::ranges::find(activations, name, [](Activation activation) { return std::string(to_string(activation)); });
  model.gated_mlp = list->size() == 2;
  if (known == activations.end() || (model.gated_mlp && list->back() != "linear")) reader.refuse("mlp_activations", wanted);
  model.activation = *known;
}

/// rope_type, or a model_name that says it: llama3.1 means neighbours as pairs and Llama 3's scaling with fixed numbers.
void read_rope(JsonReader& reader, ModelConfig& model) {
  model.rope.theta = reader.number("rope_max_timescale", 1.0, 1e15).value_or(10000.0);
  const std::string kind = reader.text("rope_type").value_or("default");
  const std::string name = reader.text("model_name").value_or("default");
  model.rope_interleaved = kind.starts_with("llama3.1") || name.starts_with("llama3.1");
  if (!model.rope_interleaved && kind != "default") reader.refuse("rope_type", "supported are \"default\" and \"llama3.1\"");
  if (!model.rope_interleaved) return;
  model.rope.kind = RopeKind::llama3;
  model.rope.factor = 8;
  model.rope.low_freq_factor = 1;
  model.rope.high_freq_factor = 4;
  model.rope.original_max_position = 8192;
}

}  // namespace

bool is_maxtext(JsonReader& reader) { return reader.find("decoder_block") != nullptr; }

ModelConfig read_maxtext(JsonReader& reader, double& z_loss) {
  ModelConfig model;
  model.numerics = "maxtext";
  model.family = reader.text("decoder_block").value_or("");
  if (std::ranges::find(blocks, model.family) == blocks.end())
    reader.refuse("decoder_block", "supported are \"default\", \"llama2\", \"gpt3\", \"simple\" and \"simple_mlp\"");
  refuse_what_is_not_computed(reader);
  model.vocab_size = reader.size("vocab_size", 1 << 26);
  model.hidden_size = reader.size("emb_dim", 1 << 20);
  model.intermediate_size = reader.size("mlp_dim", 1 << 24);
  model.layers = reader.size("num_decoder_layers", most_layers);
  model.heads = reader.size("num_query_heads", 1 << 16);
  model.kv_heads = reader.size("num_kv_heads", 1 << 16);
  model.head_dim = reader.size("head_dim", 1 << 16);
  model.rms_norm_eps = reader.number("normalization_layer_epsilon", 0.0, 1.0).value_or(1e-5);
  model.max_position_embeddings = reader.integer("max_position_embeddings", 1, 1LL << 40).value_or(163840);
  model.learned_positions = std::max<std::int64_t>(0, reader.integer("trainable_position_size", -1, 1LL << 30).value_or(-1));
  model.sinusoidal_positions = reader.boolean("use_untrainable_positional_embedding").value_or(false);
  model.tie_word_embeddings = reader.boolean("logits_via_embedding").value_or(false);
  model.normalize_embedding_logits = reader.boolean("normalize_embedding_logits").value_or(true);
  model.fused_qkv = reader.boolean("fused_qkv").value_or(false);
  model.fused_mlp = reader.boolean("fused_mlp").value_or(false);
  model.share_kv = reader.boolean("share_kv_projections").value_or(false);
  model.attn_logit_softcapping = reader.number("attn_logits_soft_cap", 0, 1e9).value_or(0);
  model.final_logit_softcapping = reader.number("final_logits_soft_cap", 0, 1e9).value_or(0);
  // enable_dropout is what a training run says; a file that lacks it means it.
  model.dropout_rate = reader.boolean("enable_dropout").value_or(true) ? reader.number("dropout_rate", 0, 0.999).value_or(0) : 0;
  (void)reader.find("dropout_rate");
  z_loss = reader.number("z_loss_multiplier", 0, 1e3).value_or(0);
  read_activations(reader, model);
  read_rope(reader, model);
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
  json["z_loss_multiplier"] = z_loss;
  json["dropout_rate"] = model.dropout_rate;
  for (const Fixed& fixed : fixed_keys()) json[fixed.key] = fixed.value;
  json["weight_dtype"] = dtype;
  return json;
}

}  // namespace millrace::layers
