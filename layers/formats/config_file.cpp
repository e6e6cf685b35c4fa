#include "layers/formats/config_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "kernels/base/count.hpp"
#include "layers/formats/hugging_face/config.hpp"
#include "layers/formats/llmc_file.hpp"
#include "layers/formats/maxtext/config.hpp"
#include "layers/models/model_family.hpp"
#include "runtime/io/json_reader.hpp"

namespace millrace::layers {
namespace {

using runtime::Json;
using runtime::JsonReader;
using runtime::OrderedJson;

constexpr const char* config_file_component = "layers.config_file";
constexpr std::size_t max_file_bytes = 4 << 20;
constexpr int max_depth = 16;
constexpr double max_weights = 1e15;  // a thousand times what anybody trained; sums of bytes and FLOPs stay far from 2^63

/// Each size may be plausible by itself while their product is not.
void check_weights(const ModelConfig& model, const std::string& where) {
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  const double width = number(model.hidden_size);
  const double heads =
      number(model.heads + std::max(model.kv_heads, model.global_kv_heads)) * number(std::max(model.head_dim, model.global_head_dim));
  const double ranks = number(model.q_lora_rank + model.kv_lora_rank);
  const double latent_heads = number(model.heads) * number(model.qk_nope_head_dim + model.qk_rope_head_dim + model.v_head_dim);
  const double experts = number(model.experts + model.shared_experts) * number(expert_width(model));
  const double index_heads = number(model.index_n_heads) * number(model.index_head_dim);
  const double layer = width * (2 * heads + 3 * (model.double_wide_mlp ? 2 : 1) * number(model.intermediate_size) + 3 * experts + ranks +
                                number(model.index_head_dim)) +
                       latent_heads * (width + ranks) + index_heads * ranks;
  // Learned positions are counted in every family, though few have them: a context is never long enough to matter.
  const double positions = number(std::max(model.learned_positions, std::min(model.max_position_embeddings, std::int64_t{1} << 30)));
  const double tables = width * (2 * number(model.vocab_size) + positions);
  // A layer's part of the per-layer inputs: its columns of the table, of their projection, and its gate and projection.
  const double own = number(model.per_layer_input_size) * (number(model.per_layer_vocab_size) + 3 * width);
  const double weights = tables + number(model.layers) * (layer + own);
  MILLRACE_CHECK(weights <= max_weights, ExitCode::model, config_file_component, "{}: a model of {:.1e} weights, expected at most {:.0e}",
                 where, weights, max_weights);
}

/// Reads the special token ids. As in transformers each is a number or a short list of numbers; anything else is ignored.
std::vector<std::pair<std::string, std::string>> token_ids_of(const Json& json) {
  const auto is_id = [](const Json& value) { return value.is_number_unsigned(); };
  std::vector<std::pair<std::string, std::string>> ids;
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    const auto found = json.find(key);
    if (found == json.end()) continue;
    const bool list = found->is_array() && found->size() <= 64 && std::ranges::all_of(*found, is_id);
    if (is_id(*found) || list) ids.emplace_back(key, found->dump());
  }
  return ids;
}

std::string written(const ConfigFile& config, std::string_view dtype) {
  OrderedJson json = family_of(config.model).config_json(config, dtype);
  for (const auto& [key, value] : config.token_ids) json[key] = Json::parse(value);
  return json.dump(2) + "\n";
}

/// The family that the config.json belongs to. Error(model) listing the known families.
const ModelFamily& recognised(JsonReader& reader) {
  const bool maxtext = is_maxtext(reader);
  std::string names;
  for (const ModelFamily* family : model_families()) {
    if ((family->traits().numerics == "maxtext") != maxtext) continue;
    if (family->recognises(reader)) return *family;
    names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", family->traits().config_type);
  }
  reader.refuse(maxtext ? "decoder_block" : "model_type", "supported are " + names);
}

/// The model with shorthand values written out, and with unused values at their defaults.
ModelConfig plain(ModelConfig model) {
  if (model.kv_lora_rank > 0) model.head_dim = model.qk_rope_head_dim;  // latent attention has widths of its own
  if (model.query_pre_attn_scalar == 0) model.query_pre_attn_scalar = static_cast<double>(model.head_dim);
  if (std::ranges::count(model.layer_kinds, LayerKind::full) == std::ssize(model.layer_kinds)) model.layer_kinds.clear();
  if (std::ranges::find(model.layer_positions, LayerPositions::none) == model.layer_positions.end()) model.layer_positions.clear();
  if (std::ranges::find(model.mlp_kinds, MlpKind::dense) == model.mlp_kinds.end()) model.mlp_kinds.clear();
  if (model.experts > 0) model.moe_intermediate_size = expert_width(model);
  if (model.shared_expert_intermediate_size == 0) model.shared_expert_intermediate_size = model.moe_intermediate_size;
  const auto unscaled = [](const RopeConfig& rope) { return RopeConfig{.theta = rope.theta, .proportion = rope.proportion}; };
  if (model.rope.kind == RopeKind::none) model.rope = unscaled(model.rope);
  if (model.rope_local.kind == RopeKind::none && model.rope_local.theta > 0) model.rope_local = unscaled(model.rope_local);
  if (model.rope_local.theta == 0) model.rope_local = model.rope;
  if (model.global_head_dim == model.head_dim) model.global_head_dim = 0;
  if (model.global_kv_heads == model.kv_heads) model.global_kv_heads = 0;
  if (model.per_layer_input_size == 0) model.per_layer_vocab_size = 0;
  if (model.moba_chunk_size == 0) model.moba_topk = ModelConfig().moba_topk;
  if (!model.attn_temperature_tuning) {
    model.attn_scale = ModelConfig().attn_scale;
    model.floor_scale = ModelConfig().floor_scale;
  }
  if (model.numerics == "maxtext") model.initializer_range = 0;  // MaxText has its own standard deviations
  return model;
}

/// "model.rope_theta = 500" if that is the first member that differs; empty if none does.
std::string first_differing_key(const ModelConfig& expected, const ModelConfig& found) {
  if (expected == found) return {};
  const auto differs = [](const char* key, const auto& a, const auto& b) {
    return a == b ? std::string() : fmt::format("model.{} = {}", key, a);
  };
  const auto bias = [](const ModelConfig& model) {
    return model.routed_bias == kernels::RouterBias::none ? "none" : model.routed_bias == kernels::RouterBias::choice ? "choice" : "score";
  };
  const auto act = [](const ModelConfig& model) { return model.hidden_act ? to_string(*model.hidden_act) : "default"; };
  for (const std::string& text :
       {differs("vocab_size", expected.vocab_size, found.vocab_size),
        differs("hidden_size", expected.hidden_size, found.hidden_size),
        differs("intermediate_size", expected.intermediate_size, found.intermediate_size),
        differs("heads", expected.heads, found.heads),
        differs("mtp_layers", expected.mtp_layers, found.mtp_layers),
        differs("kv_heads", expected.kv_heads, found.kv_heads),
        differs("head_dim", expected.head_dim, found.head_dim),
        differs("rms_norm_eps", expected.rms_norm_eps, found.rms_norm_eps),
        differs("rope", to_string(expected.rope.kind), to_string(found.rope.kind)),
        differs("rope_theta", expected.rope.theta, found.rope.theta),
        differs("rope_factor", expected.rope.factor, found.rope.factor),
        differs("rope_proportion", expected.rope.proportion, found.rope.proportion),
        differs("rope_local", to_string(expected.rope_local.kind), to_string(found.rope_local.kind)),
        differs("rope_local_theta", expected.rope_local.theta, found.rope_local.theta),
        differs("sliding_window", expected.sliding_window, found.sliding_window),
        differs("query_pre_attn_scalar", expected.query_pre_attn_scalar, found.query_pre_attn_scalar),
        differs("attn_logit_softcapping", expected.attn_logit_softcapping, found.attn_logit_softcapping),
        differs("final_logit_softcapping", expected.final_logit_softcapping, found.final_logit_softcapping),
        differs("max_position_embeddings", expected.max_position_embeddings, found.max_position_embeddings),
        differs("tie_word_embeddings", expected.tie_word_embeddings, found.tie_word_embeddings),
        differs("initializer_range", expected.initializer_range, found.initializer_range),
        differs("learned_positions", expected.learned_positions, found.learned_positions),
        differs("causal", expected.causal, found.causal),
        differs("attention_chunk_size", expected.attention_chunk, found.attention_chunk),
        differs("attention_sinks", expected.attention_sinks, found.attention_sinks),
        differs("attention_bias", expected.attention_bias, found.attention_bias),
        differs("mlp_bias", expected.mlp_bias, found.mlp_bias),
        differs("hidden_act", act(expected), act(found)),
        differs("experts", expected.experts, found.experts),
        differs("experts_per_token", expected.experts_per_token, found.experts_per_token),
        differs("moe_intermediate_size", expected.moe_intermediate_size, found.moe_intermediate_size),
        differs("norm_topk_prob", expected.norm_topk_prob, found.norm_topk_prob),
        differs("swiglu_limit", expected.swiglu_limit, found.swiglu_limit),
        differs("swiglu_alpha", expected.swiglu_alpha, found.swiglu_alpha),
        differs("capacity_factor", expected.capacity_factor, found.capacity_factor),
        differs("first_dense_layers", expected.first_dense_layers, found.first_dense_layers),
        differs("shared_experts", expected.shared_experts, found.shared_experts),
        differs("routed_scaling_factor", expected.routed_scaling_factor, found.routed_scaling_factor),
        differs("routed_bias", bias(expected), bias(found)),
        differs("mhc_expansion_rate", expected.mhc_expansion_rate, found.mhc_expansion_rate),
        differs("engram_layers", expected.engram.layers, found.engram.layers),
        differs("gated_mlp", expected.gated_mlp, found.gated_mlp),
        differs("fused_qkv", expected.fused_qkv, found.fused_qkv),
        differs("fused_mlp", expected.fused_mlp, found.fused_mlp),
        differs("normalize_embedding_logits", expected.normalize_embedding_logits, found.normalize_embedding_logits),
        differs("routing_groups", expected.routing_groups, found.routing_groups),
        differs("kept_routing_groups", expected.kept_routing_groups, found.kept_routing_groups),
        differs("q_lora_rank", expected.q_lora_rank, found.q_lora_rank),
        differs("kv_lora_rank", expected.kv_lora_rank, found.kv_lora_rank),
        differs("qk_nope_head_dim", expected.qk_nope_head_dim, found.qk_nope_head_dim),
        differs("qk_rope_head_dim", expected.qk_rope_head_dim, found.qk_rope_head_dim),
        differs("v_head_dim", expected.v_head_dim, found.v_head_dim),
        differs("index_n_heads", expected.index_n_heads, found.index_n_heads),
        differs("index_head_dim", expected.index_head_dim, found.index_head_dim),
        differs("index_topk", expected.index_topk, found.index_topk),
        differs("rope_interleaved", expected.rope_interleaved, found.rope_interleaved),
        differs("float32_gate_logits", expected.float32_gate_logits, found.float32_gate_logits),
        differs("shared_expert_intermediate_size", expected.shared_expert_intermediate_size, found.shared_expert_intermediate_size),
        differs("linear_key_heads", expected.linear_key_heads, found.linear_key_heads),
        differs("linear_value_heads", expected.linear_value_heads, found.linear_value_heads),
        differs("linear_key_head_dim", expected.linear_key_head_dim, found.linear_key_head_dim),
        differs("linear_value_head_dim", expected.linear_value_head_dim, found.linear_value_head_dim),
        differs("linear_conv_kernel_dim", expected.linear_conv_kernel_dim, found.linear_conv_kernel_dim),
        differs("gdn_reset_at_segments", expected.gdn_reset_at_segments, found.gdn_reset_at_segments),
        differs("global_head_dim", expected.global_head_dim, found.global_head_dim),
        differs("global_kv_heads", expected.global_kv_heads, found.global_kv_heads),
        differs("share_kv", expected.share_kv, found.share_kv),
        differs("per_layer_input_size", expected.per_layer_input_size, found.per_layer_input_size),
        differs("per_layer_vocab_size", expected.per_layer_vocab_size, found.per_layer_vocab_size),
        differs("kv_shared_layers", expected.kv_shared_layers, found.kv_shared_layers),
        differs("double_wide_mlp", expected.double_wide_mlp, found.double_wide_mlp),
        differs("use_qk_norm", expected.use_qk_norm, found.use_qk_norm),
        differs("attn_temperature_tuning", expected.attn_temperature_tuning, found.attn_temperature_tuning),
        differs("attn_scale", expected.attn_scale, found.attn_scale),
        differs("floor_scale", expected.floor_scale, found.floor_scale),
        differs("moba_chunk_size", expected.moba_chunk_size, found.moba_chunk_size),
        differs("moba_topk", expected.moba_topk, found.moba_topk),
        differs("scale_by_layer", expected.scale_by_layer, found.scale_by_layer),
        differs("dropout_rate", expected.dropout_rate, found.dropout_rate)})
    if (!text.empty()) return text;
  if (expected.layer_kinds != found.layer_kinds) return "model.layer_types";
  if (expected.layer_positions != found.layer_positions) return "model.layer_positions";
  if (expected.mlp_kinds != found.mlp_kinds) return "model.mlp_layer_types";
  if (!(expected.rope == found.rope)) return "the numbers of model.rope";
  if (!(expected.rope_local == found.rope_local)) return "the numbers of model.rope_local";
  if (expected.routed_score != found.routed_score) return "model.routed_score_func";
  return "a key that another family has";
}

}  // namespace

ConfigFile parse_config_file(std::string_view text, const std::string& where) {
  MILLRACE_CHECK(text.size() <= max_file_bytes, ExitCode::model, config_file_component, "{}: {}, expected at most {}", where,
                 byte_count(text.size()), max_file_bytes);
  const Json json = runtime::parse_json(text, max_depth, ExitCode::model, where);
  MILLRACE_CHECK(json.is_object(), ExitCode::model, config_file_component, "{}: a JSON {}, expected an object", where, json.type_name());
  ConfigFile result;
  JsonReader reader(json, where, ExitCode::model);
  recognised(reader).read_config(reader, result);
  if (result.losses.z_loss > 0)
    result.warnings.push_back(fmt::format("{}: z_loss_multiplier = {}: the loss includes this z-loss", where, result.losses.z_loss));
  if (result.losses.balance_loss > 0)
    result.warnings.push_back(
        fmt::format("{}: load_balance_loss_weight = {}: training adds this balance loss, the held-out loss excludes it", where,
                    result.losses.balance_loss));
  if (result.losses.indexer_loss > 0)
    result.warnings.push_back(fmt::format("{}: indexer_loss_scaling_factor = {}: {}", where, result.losses.indexer_loss,
                                          result.losses.indexer_warmup
                                              ? "indexers alone are trained, since indexer_sparse_training is false"
                                              : "training adds this loss of indexers, the held-out loss excludes it"));
  if (result.losses.routed_bias_update_rate > 0)
    result.warnings.push_back(fmt::format("{}: routed_bias_update_rate = {}: training moves the routers' biases by it after each step",
                                          where, result.losses.routed_bias_update_rate));
  check_weights(result.model, where);
  result.token_ids = token_ids_of(json);
  reader.warn_of_the_rest(result.warnings, ignored_hugging_face_keys());
  return result;
}

ConfigFile read_config_file(const std::filesystem::path& path) {
  if (is_llmc_file(path.string())) {
    ConfigFile file{read_llmc_config(path.string())};
    check_weights(file.model, path.string());
    return file;
  }
  std::error_code error;
  const std::filesystem::path file = std::filesystem::is_directory(path, error) ? path / "config.json" : path;
  const auto size = std::filesystem::file_size(file, error);
  MILLRACE_CHECK(!error, ExitCode::model, config_file_component,
                 "{}: cannot be read: {}; expected the folder of a model, or its config.json", file.string(), error.message());
  MILLRACE_CHECK(size <= max_file_bytes, ExitCode::model, config_file_component, "{}: {}, expected at most {}", file.string(),
                 byte_count(size), max_file_bytes);
  std::ifstream stream(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  MILLRACE_CHECK(!stream.bad() && text.size() == size, ExitCode::model, config_file_component, "{}: cannot be read", file.string());
  return parse_config_file(text, file.string());
}

std::string config_file_text(const ConfigFile& config, std::string_view dtype) {
  const std::string text = written(config, dtype);
  // A value that the file cannot express would be lost, and the file would describe another model.
  const ModelConfig expected = plain(config.model);
  ModelConfig found = plain(parse_config_file(text, "the config.json to be written").model);
  // A run says whether it computes the modules of a file (model.mtp_layers): many files of transformers name some and have no weights of
  // them.
  if (found.numerics == "hf") found.mtp_layers = expected.mtp_layers;
  const std::string lost = first_differing_key(expected, found);
  MILLRACE_CHECK(lost.empty(), ExitCode::model, config_file_component,
                 "a config.json of the family {} cannot express {}: the exported model would differ", config.model.family, lost);
  return text;
}

}  // namespace millrace::layers
