#include "runtime/data/tokenizers/tokenizer_files.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <system_error>

#include "kernels/base/check.hpp"
#include "runtime/data/byte_tokenizer.hpp"
#include "runtime/data/tokenizers/component.hpp"
#include "runtime/data/tokenizers/tokenizer.hpp"
#include "runtime/data/tokenizers/tokenizer_json.hpp"
#include "runtime/data/tokenizers/utf8.hpp"
#include "runtime/io/file_system.hpp"
#include "runtime/io/hash.hpp"
#include "runtime/io/json_reader.hpp"

namespace millrace::runtime {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t max_tokenizer_bytes = std::uint64_t{256} << 20;  // as open_tokenizer()

/// The names that libraries give to the files of a tokenizer, and of generation.
constexpr std::array known_names = {"added_tokens.json",  "chat_template.jinja",     "chat_template.json", "generation_config.json",
                                    "merges.txt",         "special_tokens_map.json", "tokenizer.json",     "tokenizer.model",
                                    "tokenizer.tiktoken", "tokenizer_config.json",   "vocab.json"};

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

/// Whether a file of this name holds a vocabulary, in the order in which open_tokenizer() looks for one; vocab.json is last.
std::size_t rank_of(std::string_view name) {
  if (name == "tokenizer.json") return 0;
  if (name == "tokenizer.model") return 1;
  if (name.ends_with(".tiktoken")) return 2;
  return name == "vocab.json" ? 3 : 4;
}

/// The name under which libraries, and open_tokenizer() in a folder, look for a file of this kind.
std::string standard_name(const std::string& name) {
  if (name.ends_with(".json")) return "tokenizer.json";
  if (name.ends_with(".model")) return "tokenizer.model";
  return name;  // the split pattern of a .tiktoken file follows from its name
}

constexpr const char* byte_end = "<|endoftext|>";

Json token_entry(std::int32_t id, const std::string& content) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

}  // namespace

const std::string& TokenizerFiles::vocabulary_file() const {
  const auto found = std::min_element(files.begin(), files.end(),
                                      [](const auto& left, const auto& right) { return rank_of(left.first) < rank_of(right.first); });
  MILLRACE_CHECK(found != files.end(), ExitCode::internal, tokenize_component, "{}: no files, expected those of a tokenizer", source);
  return found->first;
}

std::string TokenizerFiles::vocabulary_hash() const { return hash_of(files.at(vocabulary_file())).hex(); }

std::vector<std::string> tokenizer_file_names(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return {};
  std::vector<std::string> found;
  for (const std::string& name : list_directory(folder.string())) {
    const bool known = std::find(known_names.begin(), known_names.end(), name) != known_names.end() || name.ends_with(".tiktoken");
    if (known && is_file(folder / name)) found.push_back(name);
  }
  return found;
}

TokenizerFiles read_tokenizer_files(const fs::path& path) {
  if (path == "byte") return byte_tokenizer_files();
  TokenizerFiles read{path.string(), {}};
  const auto add = [&](const fs::path& from, const std::string& name) {
    read.files.emplace(name, read_text_file(from.string(), max_tokenizer_bytes, ExitCode::data));
  };
  const bool file = is_file(path);
  const std::string name = path.filename().string();
  const bool standard = std::find(known_names.begin(), known_names.end(), name) != known_names.end();
  if (file && !standard) {
    add(path, standard_name(name));
    return read;
  }
  const fs::path folder = file ? path.parent_path() : path;
  const auto names = tokenizer_file_names(folder.empty() ? fs::path(".") : folder);
  // A file that was named excludes other vocabularies beside it.
  const auto is_other = [&](const std::string& other) { return file && other != name && rank_of(other) < rank_of("vocab.json"); };
  for (const auto& each : names)
    if (!is_other(each)) add(folder / each, each);
  const bool has_vocabulary = std::any_of(names.begin(), names.end(), [](const std::string& each) { return rank_of(each) < 4; });
  if (!has_vocabulary) read.files.clear();
  return read;
}

TokenizerFiles byte_tokenizer_files() {
  // GPT-2's alphabet of bytes: printable ones of Latin-1 stand for themselves, the others are numbered from U+0100 on.
  OrderedJson vocabulary = OrderedJson::object();
  std::uint32_t next = 0x100;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
    std::string character;
    append_character(printable ? byte : next++, character);
    vocabulary[character] = byte;
  }
  OrderedJson json;
  json["version"] = "1.0";
  json["truncation"] = nullptr;
  json["padding"] = nullptr;
  json["added_tokens"] = OrderedJson::array({token_entry(ByteTokenizer::end_of_document, byte_end)});
  json["normalizer"] = nullptr;
  json["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  json["post_processor"] = nullptr;
  json["decoder"] = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
  json["model"] = {{"type", "BPE"},
                   {"dropout", nullptr},
                   {"unk_token", nullptr},
                   {"continuing_subword_prefix", nullptr},
                   {"end_of_word_suffix", nullptr},
                   {"fuse_unk", false},
                   {"byte_fallback", false},
                   {"ignore_merges", false},
                   {"vocab", vocabulary},
                   {"merges", OrderedJson::array()}};
  OrderedJson config;
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  config["clean_up_tokenization_spaces"] = false;
  config["eos_token"] = byte_end;
  config["pad_token"] = byte_end;
  return {"byte", {{"tokenizer.json", json.dump(1) + "\n"}, {"tokenizer_config.json", config.dump(2) + "\n"}}};
}

bool is_byte_vocabulary(const TokenizerFiles& files) {
  return !files.empty() && files.vocabulary_file() == "tokenizer.json" &&
         files.vocabulary_hash() == byte_tokenizer_files().vocabulary_hash();
}

void complete_for_transformers(TokenizerFiles& files) {
  if (files.empty() || files.vocabulary_file() != "tokenizer.json" || files.files.contains("tokenizer_config.json")) return;
  const auto tokenizer = read_tokenizer_json(files.files.at("tokenizer.json"), files.source);
  OrderedJson config;
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  config["clean_up_tokenization_spaces"] = false;
  if (const auto begin = tokenizer->begin_of_document()) config["bos_token"] = tokenizer->spelling(*begin).text;
  if (const auto end = tokenizer->end_of_document()) config["eos_token"] = tokenizer->spelling(*end).text;
  files.files["tokenizer_config.json"] = config.dump(2) + "\n";
}

void write_tokenizer_folder(const std::string& folder, const TokenizerFiles& files) {
  const std::string temporary = folder + ".tmp";
  remove_tree(temporary);
  make_directories(temporary);
  for (const auto& [name, text] : files.files) write_text_file(join_path(temporary, name), text);
  rename_path(temporary, folder);
  sync_directory(parent_path(folder));
}

std::string tokenizer_beside(const std::string& token_file) {
  constexpr std::string_view suffix = ".bin";
  return (token_file.ends_with(suffix) ? token_file.substr(0, token_file.size() - suffix.size()) : token_file) + ".tokenizer";
}

}  // namespace millrace::runtime
