#include "runtime/data/tokenizers/text_cut.hpp"

#include <algorithm>

#include "runtime/data/tokenizers/utf8.hpp"

namespace millrace::runtime {
namespace {

bool is_plain(char byte) { return byte > ' ' && byte < 0x7f; }

}  // namespace

std::size_t next_cut(std::string_view text, std::size_t target) noexcept {
  constexpr std::size_t patience = 16;
  if (text.size() <= target) return text.size();
  const std::size_t limit = std::min(text.size(), target * patience);
  for (std::size_t at = text.find('\n', target); at < limit; at = text.find('\n', at + 1)) {
    if (at + 1 < text.size() && is_plain(text[at - 1]) && is_plain(text[at + 1]) && text[at + 1] != '/') return at + 1;
  }
  if (limit == text.size()) return limit;
  // A cut must not split a character, whose first byte is at most three bytes before.
  for (std::size_t at = limit; at + 4 > limit; --at) {
    if ((static_cast<unsigned char>(text[at]) & 0xc0) != 0x80) return at;
  }
  return limit;
}

}  // namespace millrace::runtime
