#include "configs/toml_words.hpp"

#include <fmt/format.h>

#include <optional>

namespace millrace::configs {
namespace {

constexpr std::size_t most_shown = 60;  // bytes of a line

/// What stands between `before` and `after` in the text; nothing if the text lacks one of them.
std::optional<std::string> between(std::string_view text, std::string_view before, std::string_view after) {
  const auto begin = text.find(before);
  if (begin == std::string_view::npos) return std::nullopt;
  const auto end = text.find(after, begin + before.size());
  if (end == std::string_view::npos) return std::nullopt;
  return std::string(text.substr(begin + before.size(), end - begin - before.size()));
}

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

std::string found_text(std::string_view saw) {
  if (saw == "'\\n'" || saw == "'\\r'") return "the end of the line";
  if (saw == "EOF" || saw == "'\\0'") return "the end of the file";
  return std::string(saw);
}

std::string expected_words(std::string_view expected) {
  if (expected == "value-terminator") return "the end of the value: a comma, a bracket or the end of the line (text stands in quotes)";
  if (expected == "bare key starting character or string delimiter") return "the name of a key";
  if (expected == "keys, tables, whitespace or comments") return "a key, a [section] or a comment";
  return std::string(expected);
}

/// `within`: what was being read, "value" or "key-value pair"; may be empty.
std::string words_of(std::string_view text, std::string_view within) {
  if (const auto section = between(text, "cannot redefine existing table '", "'"))
    return fmt::format("the section [{}] is there twice, expected all of its keys in one place", *section);
  if (has(text, "cannot redefine existing"))
    return fmt::format("{} is given twice, expected once", between(text, " '", "'").value_or("the key"));
  // A text without quotes that begins like a word of TOML: true, false, inf or nan.
  const bool bare_word = within == "boolean" || within == "floating-point";
  if ((bare_word && text.starts_with("expected '")) || has(text, "could not determine value type") ||
      has(text, "could not be interpreted as a value"))
    return "no value, expected text in quotes, a number, true, false, or a list in brackets";
  if (has(text, "control characters") && within == "string") return "a text without its closing quote, expected one on the same line";
  if (has(text, "utf-8")) return "not UTF-8, expected a text file";
  if (const auto number = between(text, "'", "' is not representable in 64 bits"))
    return fmt::format("{} does not fit into 64 bits, expected a smaller number", *number);
  if (has(text, "encountered end-of-file"))
    return fmt::format("the file ends within a {}, expected the rest of it", within.empty() ? "line" : within);
  if (const auto saw = text.rfind(", saw "); saw != std::string_view::npos && text.starts_with("expected "))
    return fmt::format("found {}, expected {}", found_text(text.substr(saw + 6)), expected_words(text.substr(9, saw - 9)));
  return fmt::format("not TOML{}: {}", within.empty() ? "" : fmt::format(", in a {}", within), text);
}

}  // namespace

std::string toml_words(std::string_view description, std::string_view line) {
  constexpr std::string_view opening = "Error while parsing ";
  std::string_view within, text = description;
  if (text.starts_with(opening)) {
    const auto colon = text.find(": ");
    within = text.substr(opening.size(), colon == std::string_view::npos ? colon : colon - opening.size());
    text = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 2);
  }
  while (line.ends_with('\r') || line.ends_with(' ')) line.remove_suffix(1);
  const bool shown = !line.empty() && !has(text, "utf-8");
  return fmt::format("{}{}", shown ? fmt::format("`{}{}`: ", line.substr(0, most_shown), line.size() > most_shown ? " …" : "") : "",
                     words_of(text, within));
}

}  // namespace millrace::configs
