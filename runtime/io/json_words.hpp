#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace millrace::runtime {

/// What the JSON library says about text that is not JSON, in this project's words and at most 300 bytes long:
/// "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while parsing object key - unexpected end of input;
/// expected string literal" becomes "line 1, column 2: unexpected end of input, expected string literal".
[[nodiscard]] inline std::string json_words(std::string_view text) {
  if (text.starts_with("[json.exception.")) text.remove_prefix(text.find("] ") == text.npos ? 0 : text.find("] ") + 2);
  constexpr std::size_t most = 300;
  std::string place;
  constexpr std::string_view at = "parse error at ";
  if (text.starts_with(at)) {
    const auto colon = text.find(": ");
    if (colon != std::string_view::npos) {
      place = std::string(text.substr(at.size(), colon - at.size())) + ": ";
      text.remove_prefix(colon + 2);
    }
  }
  if (text.starts_with("syntax error while parsing")) text.remove_prefix(text.find(" - ") == text.npos ? 0 : text.find(" - ") + 3);
  std::string words = place;
  constexpr std::string_view separator = "; expected ", last_read = "; last read: ";
  for (; !text.empty() && words.size() < most; text.remove_prefix(1)) {
    if (text.starts_with(separator)) {
      words += ", expected ";
      text.remove_prefix(separator.size() - 1);
    } else if (text.starts_with(last_read)) {
      words += " after ";
      text.remove_prefix(last_read.size() - 1);
    } else {
      words += text.front();
    }
  }
  return words;
}

}  // namespace millrace::runtime
