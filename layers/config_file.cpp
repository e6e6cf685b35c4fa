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
  MILLRACE_CHECK(weights <= most_weights, ExitCode::model, who, "{}: a model of {:.1e} weights, wanted at most {:.0e}", where, weights,
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

}  // namespace

ConfigFile parse_config_file(std::string_view text, const std::string& where) {
  MILLRACE_CHECK(text.size() <= largest_file, ExitCode::model, who, "{}: {} bytes, wanted at most {}", where, text.size(), largest_file);
  const Json json = runtime::parse_strict_json(text, deepest, ExitCode::model, where);
  MILLRACE_CHECK(json.is_object(), ExitCode::model, who, "{}: a JSON {}, wanted an object", where, json.type_name());
  ConfigFile result;
  JsonReader reader(json, where);
  if (is_maxtext(reader)) {
    result.model = read_maxtext(reader, result.z_loss);
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
  MILLRACE_CHECK(size <= largest_file, ExitCode::model, who, "{}: {} bytes, wanted at most {}", file.string(), size, largest_file);
  std::ifstream stream(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  MILLRACE_CHECK(!stream.bad() && text.size() == size, ExitCode::model, who, "{}: cannot be read", file.string());
  return parse_config_file(text, file.string());
}

std::string config_file_text(const ConfigFile& config, std::string_view dtype) {
  OrderedJson json =
      config.model.numerics == "maxtext" ? maxtext_json(config.model, dtype, config.z_loss) : hugging_face_json(config.model, dtype);
  for (const auto& [key, value] : config.token_ids) json[key] = Json::parse(value);
  return json.dump(2) + "\n";
}

}  // namespace millrace::layers
