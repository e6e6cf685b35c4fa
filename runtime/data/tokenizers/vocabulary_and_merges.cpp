#include "runtime/data/tokenizers/vocabulary_and_merges.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "kernels/base/check.hpp"
#include "runtime/data/tokenizers/component.hpp"
#include "runtime/data/tokenizers/tokenizer_json.hpp"
#include "runtime/io/file_system.hpp"
#include "runtime/io/json_reader.hpp"
#include "runtime/split.hpp"

namespace millrace::runtime {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t max_file_bytes = std::uint64_t{256} << 20;
constexpr const char* end_of_text = "<|endoftext|>";

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

/// A JSON object in a file of the folder; an empty one if there is no such file.
OrderedJson object_in(const fs::path& path) {
  if (!is_file(path)) return OrderedJson::object();
  auto json = OrderedJson::parse(read_text_file(path.string(), max_file_bytes, ExitCode::data), nullptr, false);
  MILLRACE_CHECK(json.is_object(), ExitCode::data, tokenize_component, "{}: no JSON object", path.string());
  return json;
}

std::string text_of(const OrderedJson& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

void check_class(const fs::path& folder) {
  const std::string name = text_of(object_in(folder / "tokenizer_config.json"), "tokenizer_class");
  const std::string model = text_of(object_in(folder / "config.json"), "model_type");
  const bool known = name.empty() ? model.empty() || model == "gpt2" : name == "GPT2Tokenizer" || name == "GPT2TokenizerFast";
  MILLRACE_CHECK(known, ExitCode::data, tokenize_component,
                 "{}: vocab.json and merges.txt of {}, expected those of GPT2Tokenizer, or a tokenizer.json (transformers writes one: "
                 "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(OUT))",
                 folder.string(), name.empty() ? "a model of type " + model : name);
}

/// The lines of merges.txt, "a b" each, below the line with the version.
OrderedJson merges_in(const fs::path& path) {
  OrderedJson merges = OrderedJson::array();
  const std::string text = read_text_file(path.string(), max_file_bytes, ExitCode::data);
  for (std::string_view line : split(text, '\n')) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty() && !line.starts_with("#version")) merges.push_back(std::string(line));
  }
  return merges;
}

}  // namespace

bool has_vocabulary_and_merges(const fs::path& folder) { return is_file(folder / "vocab.json") && is_file(folder / "merges.txt"); }

std::unique_ptr<Tokenizer> read_vocabulary_and_merges(const fs::path& folder) {
  check_class(folder);
  // In the form of a tokenizer.json, whose reader checks both.
  OrderedJson vocabulary = object_in(folder / "vocab.json");
  OrderedJson added = OrderedJson::array();
  if (const auto end = vocabulary.find(end_of_text); end != vocabulary.end() && end->is_number_unsigned())
    added.push_back({{"id", *end},
                     {"content", end_of_text},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  OrderedJson json;
  json["version"] = "1.0";
  json["added_tokens"] = std::move(added);
  json["normalizer"] = nullptr;
  json["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  json["post_processor"] = nullptr;
  json["decoder"] = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
  json["model"] = {{"type", "BPE"}, {"vocab", std::move(vocabulary)}, {"merges", merges_in(folder / "merges.txt")}};
  const auto text = json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  return read_tokenizer_json(text, (folder / "vocab.json").string());
}

}  // namespace millrace::runtime
