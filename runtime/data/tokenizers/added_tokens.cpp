#include "runtime/data/tokenizers/added_tokens.hpp"

#include <algorithm>

namespace millrace::runtime {

bool AddedTokens::sort() {
  std::sort(tokens_.begin(), tokens_.end(), [](const Token& a, const Token& b) { return a.text < b.text; });
  for (const Token& token : tokens_) first_byte_[static_cast<unsigned char>(token.text.front())] = true;
  return std::adjacent_find(tokens_.begin(), tokens_.end(), [](const Token& a, const Token& b) { return a.text == b.text; }) ==
         tokens_.end();
}

AddedTokens::Found AddedTokens::find(std::string_view text, std::size_t from) const noexcept {
  if (tokens_.empty()) return {};
  for (std::size_t at = from; at < text.size(); ++at) {
    if (!first_byte_[static_cast<unsigned char>(text[at])]) continue;
    // The tokens that match the text so far are adjacent in byte order: the range shrinks with every byte.
    Found found;
    auto low = tokens_.begin();
    auto high = tokens_.end();
    for (std::size_t length = 0; low != high; ++length) {
      if (low->text.size() == length) {
        if (length > 0) found = {at, length, low->id};
        ++low;
      }
      if (at + length >= text.size()) break;
      const auto byte = static_cast<unsigned char>(text[at + length]);
      const auto byte_of = [length](const Token& token) { return static_cast<unsigned char>(token.text[length]); };
      low = std::lower_bound(low, high, byte, [&](const Token& token, unsigned char value) { return byte_of(token) < value; });
      high = std::upper_bound(low, high, byte, [&](unsigned char value, const Token& token) { return value < byte_of(token); });
    }
    if (found.length > 0) return found;
  }
  return {};
}

}  // namespace millrace::runtime
