#include "runtime/data/tokenizers/compress_vocabulary.hpp"

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <unordered_map>

#include "kernels/base/check.hpp"
#include "runtime/data/tokenizers/component.hpp"
#include "runtime/data/tokenizers/tokenizer.hpp"
#include "runtime/data/tokenizers/unicode.hpp"
#include "runtime/data/tokenizers/utf8.hpp"
#include "runtime/io/file_system.hpp"
#include "runtime/io/json_reader.hpp"

namespace millrace::runtime {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t max_config_bytes = std::uint64_t{64} << 20;

bool is_white(std::string_view text, std::size_t at) {
  const Character character = character_at(text, at);
  return character.length > 0 && (character_classes()[character.code] & space) != 0;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_white(text, 0)) text.remove_prefix(character_at(text, 0).length);
  for (;;) {
    std::size_t last = text.size();
    while (last > 0 && (static_cast<unsigned char>(text[last - 1]) & 0xc0) == 0x80) --last;
    if (last == 0 || !is_white(text, last - 1)) return text;
    text = text.substr(0, last - 1);
  }
}

/// The text of the key pad_token, a string or an object with `content`.
std::optional<std::string> pad_token_in(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return std::nullopt;
  const std::string where = file.string();
  const Json json = parse_json(read_text_file(where, max_config_bytes, ExitCode::data), 64, ExitCode::data, where);
  const JsonReader reader(json, where, ExitCode::data);
  const Json* token = reader.find("pad_token");
  if (token == nullptr) return std::nullopt;
  return token->is_object() ? reader.member("pad_token").member("content").text() : reader.member("pad_token").text();
}

std::int32_t padding_of(const Tokenizer& tokenizer, const fs::path& path) {
  std::error_code error;
  const fs::path folder = fs::is_directory(path, error) ? path : path.parent_path();
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const auto text = path == "byte" ? std::nullopt : pad_token_in(folder / name);
    if (!text) continue;
    for (std::int32_t id = 0; id < tokenizer.vocabulary(); ++id)
      if (tokenizer.spelling(id).text == *text) return id;
    fail(ExitCode::data, tokenize_component, "{}: pad_token = \"{}\", expected a token of the tokenizer", (folder / name).string(), *text);
  }
  const auto padding = tokenizer.padding();
  MILLRACE_CHECK(
      padding.has_value(), ExitCode::data, tokenize_component,
      "{}: the tokenizer has no padding token, expected a pad_token in tokenizer_config.json or special_tokens_map.json beside it",
      path.string());
  return *padding;
}

}  // namespace

std::string compression_key(std::string_view text) {
  std::string collapsed;
  for (const char byte : folded_text(text)) {
    const bool blank = byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
    if (!blank)
      collapsed += byte;
    else if (collapsed.empty() || collapsed.back() != ' ')
      collapsed += ' ';
  }
  // MaxText saves a single space from being trimmed as this character of the private use area, and turns every such character into a space.
  constexpr std::string_view saved_space = "\uE000";
  if (collapsed == " ") return collapsed;
  std::string key(trimmed(collapsed));
  for (std::size_t at = key.find(saved_space); at != std::string::npos; at = key.find(saved_space, at + 1))
    key.replace(at, saved_space.size(), " ");
  return key.empty() ? std::string(text) : key;
}

TokenCompression compress_vocabulary(const fs::path& path) {
  const auto tokenizer = open_tokenizer(path);
  TokenCompression compression;
  std::unordered_map<std::string, std::int32_t> ids;
  for (std::int32_t token = 0; token < tokenizer->vocabulary(); ++token) {
    Tokenizer::Spelling spelling = tokenizer->spelling(token);
    std::string key = spelling.readable ? compression_key(spelling.text) : std::move(spelling.text);
    compression.ids.push_back(ids.try_emplace(std::move(key), static_cast<std::int32_t>(ids.size())).first->second);
  }
  compression.vocabulary = static_cast<std::int64_t>(ids.size());
  compression.padding = compression.ids.at(static_cast<std::size_t>(padding_of(*tokenizer, path)));
  return compression;
}

}  // namespace millrace::runtime
