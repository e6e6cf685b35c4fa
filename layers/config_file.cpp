#include "layers/config_file.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "layers/hugging_face/config.hpp"
#include "layers/llmc_file.hpp"
#include "layers/maxtext/config.hpp"
#include "runtime/io/strict_json.hpp"

namespace millrace::layers {
namespace {

constexpr const char* who = "layers.config_file";
constexpr std::size_t largest_file = 4 << 20;
constexpr int deepest = 16;
constexpr double most_weights = 1e15;  // a thousand times what anybody trained; sums of bytes and FLOPs stay far from 2^63

/// Sizes that are each possible may together be none.
void check_weights(const ModelConfig& model, const std::string& where) {
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  const double width = number(model.hidden_size), heads = number(model.heads + model.kv_heads) * number(model.head_dim);
  const double layer = width * (2 * heads + 3 * number(model.intermediate_size));
  const double tables = width * (2 * number(model.vocab_size) + number(model.learned_positions) +
                                 (model.family == "gpt2" ? number(model.max_position_embeddings) : 0));
  const double weights = tables + number(model.layers) * layer;
  MILLRACE_CHECK(weights <= most_weights, ExitCode::model, who, "{}: a model of {:.1e} weights, expected at most {:.0e}", where, weights,
                 most_weights);
}

/// Token ids of the kinds that transformers knows; what is neither a number nor a short list of them is left out.
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
  OrderedJson json =
      config.model.numerics == "maxtext" ? maxtext_json(config.model, dtype, config.z_loss) : hugging_face_json(config.model, dtype);
  for (const auto& [key, value] : config.token_ids) json[key] = Json::parse(value);
  return json.dump(2) + "\n";
}

/// The model with values that stand for others said outright, and those that nothing reads at their defaults.
ModelConfig plain(ModelConfig model) {
  if (model.query_pre_attn_scalar == 0) model.query_pre_attn_scalar = static_cast<double>(model.head_dim);
  if (model.rope_local_theta == 0) model.rope_local_theta = model.rope.theta;
  if (std::ranges::find(model.layer_kinds, LayerKind::sliding) == model.layer_kinds.end()) model.layer_kinds.clear();
  if (model.rope.kind == RopeKind::none) model.rope = {.theta = model.rope.theta};
  if (model.numerics == "maxtext") model.initializer_range = 0;  // its initial values have deviations of their own
  return model;
}

/// "model.rope_theta = 500" where that is the first member that differs, else nothing.
std::string first_difference(const ModelConfig& wanted, const ModelConfig& found) {
  if (wanted == found) return {};
  const auto differs = [](const char* key, const auto& a, const auto& b) {
    return a == b ? std::string() : fmt::format("model.{} = {}", key, a);
  };
  for (const std::string& text : {differs("vocab_size", wanted.vocab_size, found.vocab_size),
                                  differs("hidden_size", wanted.hidden_size, found.hidden_size),
                                  differs("intermediate_size", wanted.intermediate_size, found.intermediate_size),
                                  differs("heads", wanted.heads, found.heads),
                                  differs("kv_heads", wanted.kv_heads, found.kv_heads),
                                  differs("head_dim", wanted.head_dim, found.head_dim),
                                  differs("rms_norm_eps", wanted.rms_norm_eps, found.rms_norm_eps),
                                  differs("rope", to_string(wanted.rope.kind), to_string(found.rope.kind)),
                                  differs("rope_theta", wanted.rope.theta, found.rope.theta),
                                  differs("rope_factor", wanted.rope.factor, found.rope.factor),
                                  differs("rope_local_theta", wanted.rope_local_theta, found.rope_local_theta),
                                  differs("sliding_window", wanted.sliding_window, found.sliding_window),
                                  differs("query_pre_attn_scalar", wanted.query_pre_attn_scalar, found.query_pre_attn_scalar),
                                  differs("attn_logit_softcapping", wanted.attn_logit_softcapping, found.attn_logit_softcapping),
                                  differs("final_logit_softcapping", wanted.final_logit_softcapping, found.final_logit_softcapping),
                                  differs("max_position_embeddings", wanted.max_position_embeddings, found.max_position_embeddings),
                                  differs("tie_word_embeddings", wanted.tie_word_embeddings, found.tie_word_embeddings),
                                  differs("initializer_range", wanted.initializer_range, found.initializer_range),
                                  differs("learned_positions", wanted.learned_positions, found.learned_positions),
                                  differs("dropout_rate", wanted.dropout_rate, found.dropout_rate)})
    if (!text.empty()) return text;
  if (wanted.layer_kinds != found.layer_kinds) return "model.layer_types";
  if (!(wanted.rope == found.rope)) return "the numbers of model.rope";
  return "a key that another family has (activation, gated_mlp, fused_qkv, fused_mlp, share_kv, …)";
}

}  // namespace

ConfigFile parse_config_file(std::string_view text, const std::string& where) {
  MILLRACE_CHECK(text.size() <= largest_file, ExitCode::model, who, "{}: {} bytes, expected at most {}", where, text.size(), largest_file);
  const Json json = runtime::parse_strict_json(text, deepest, ExitCode::model, where);
  MILLRACE_CHECK(json.is_object(), ExitCode::model, who, "{}: a JSON {}, expected an object", where, json.type_name());
  ConfigFile result;
  JsonReader reader(json, where);
  if (is_maxtext(reader)) {
    result.model = read_maxtext(reader, result.z_loss);
    if (result.z_loss > 0)
      result.warnings.push_back(fmt::format("{}: z_loss_multiplier = {}: the loss has this z-loss in it", where, result.z_loss));
  } else {
    result.model = read_hugging_face(reader, result.warnings);
  }
  check_weights(result.model, where);
  result.token_ids = token_ids_of(json);
  reader.warn_of_the_rest(result.warnings);
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
  MILLRACE_CHECK(!error, ExitCode::model, who, "{}: cannot be read: {}", file.string(), error.message());
  MILLRACE_CHECK(size <= largest_file, ExitCode::model, who, "{}: {} bytes, expected at most {}", file.string(), size, largest_file);
  std::ifstream stream(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  MILLRACE_CHECK(!stream.bad() && text.size() == size, ExitCode::model, who, "{}: cannot be read", file.string());
  return parse_config_file(text, file.string());
}

std::string config_file_text(const ConfigFile& config, std::string_view dtype) {
  const std::string text = written(config, dtype);
  // What the file cannot say would be lost: another model.
  const ModelConfig wanted = plain(config.model), found = plain(parse_config_file(text, "the config.json to be written").model);
  const std::string lost = first_difference(wanted, found);
  MILLRACE_CHECK(lost.empty(), ExitCode::model, who, "a config.json of the family {} cannot say {}: it would be another model",
                 config.model.family, lost);
  return text;
}

}  // namespace millrace::layers
