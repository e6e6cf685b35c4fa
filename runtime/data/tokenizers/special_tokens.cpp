#include "runtime/data/tokenizers/special_tokens.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "kernels/base/check.hpp"
#include "runtime/data/tokenizers/added_tokens.hpp"
#include "runtime/data/tokenizers/component.hpp"
#include "runtime/io/json_reader.hpp"

namespace millrace::runtime {
namespace {

constexpr std::string_view white_space = " \t\n\r\f\v";
constexpr int max_token_config_depth = 64;  // nesting of JSON

using Special = Tokenizer::SpecialToken;

/// Reads added_tokens_decoder: an object of {"content", "special", "lstrip", "rstrip", …} by id.
void add_decoder(const JsonReader& decoder, std::int64_t max_id, std::map<std::string, Special>& tokens) {
  for (const auto& [key, value] : decoder.object().items()) {
    const JsonReader entry = decoder.member(key);
    if (!entry.boolean("special").value_or(false)) continue;
    const bool digits = !key.empty() && key.size() < 10 && key.find_first_not_of("0123456789") == std::string::npos;
    if (!digits || std::stoll(key) > max_id) entry.refuse("expected the id of a token as its key");
    const std::string content = entry.member("content").text();
    tokens.try_emplace(content, Special{content, static_cast<std::int32_t>(std::stoll(key)), entry.boolean("lstrip").value_or(false),
                                        entry.boolean("rstrip").value_or(false)});
  }
}

template <class Add>
void read_object(const TokenizerFiles& files, const std::string& name, Add add) {
  const auto file = files.files.find(name);
  if (file == files.files.end()) return;
  const std::string where = files.source + "/" + name;
  const Json json = parse_json(file->second, max_token_config_depth, ExitCode::data, where);
  add(JsonReader(json, where, ExitCode::data));
}

}  // namespace

std::vector<Special> special_tokens_of(const Tokenizer& tokenizer, const TokenizerFiles& files) {
  // A model's table may have more rows than its tokenizer's vocabulary file has ids.
  constexpr std::int64_t max_id = std::int64_t{1} << 28;
  std::map<std::string, Special> tokens;
  for (const auto& token : tokenizer.special_tokens()) tokens.emplace(token.text, token);
  read_object(files, "tokenizer_config.json", [&](const JsonReader& config) {
    if (const auto decoder = config.object("added_tokens_decoder")) add_decoder(*decoder, max_id, tokens);
  });
  if (files.vocabulary_file() != "tokenizer.json")  // which has its added tokens itself
    read_object(files, "added_tokens.json", [&](const JsonReader& added) {
      for (const auto& [content, id] : added.object().items())
        tokens.try_emplace(content, Special{content, static_cast<std::int32_t>(added.member(content).integer(0, max_id))});
    });
  std::vector<Special> all;
  for (const auto& [content, token] : tokens)
    if (!content.empty()) all.push_back(token);
  return all;
}

std::size_t encode_with_special(const Tokenizer& tokenizer, const std::vector<Special>& special, std::string_view text,
                                std::vector<std::int32_t>& ids) {
  AddedTokens tokens;
  std::map<std::int32_t, Special> by_id;
  for (const auto& token : special) {
    tokens.add(token.text, token.id);
    by_id.emplace(token.id, token);
  }
  MILLRACE_CHECK(tokens.sort(), ExitCode::data, tokenize_component, "a special token appears twice");
  std::size_t count = 0;
  for (std::size_t from = 0; from < text.size();) {
    const auto found = tokens.find(text, from);
    const std::size_t end = found.length > 0 ? found.begin : text.size();
    std::string_view part = text.substr(from, end - from);
    from = end + found.length;
    if (found.length > 0) {
      const auto& token = by_id.at(found.id);
      if (token.strips_left) part = part.substr(0, part.find_last_not_of(white_space) + 1);
      if (token.strips_right) from = std::min(text.find_first_not_of(white_space, from), text.size());
    }
    if (!part.empty()) count == 0 ? tokenizer.encode(part, ids) : tokenizer.encode_after_special(part, ids);
    if (found.length > 0) ids.push_back(found.id);
    count += found.length > 0 ? 1 : 0;
  }
  return count;
}

}  // namespace millrace::runtime
