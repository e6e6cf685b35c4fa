#include "runtime/data/tokenizers/text_cut.hpp"

#include <algorithm>

#include "runtime/data/tokenizers/utf8.hpp"

namespace millrace::runtime {
namespace {

bool is_plain(char byte) { return byte > ' ' && byte < 0x7f; }

}  // namespace

std::size_t next_cut(std::string_view text, std::size_t wanted) noexcept {
  constexpr std::size_t patience = 16;
  if (text.size() <= wanted) return text.size();
  const std::size_t limit = std::min(text.size(), wanted * patience);
  for (std::size_t at = text.find('\n', wanted); at < limit; at = text.find('\n', at + 1)) {
    if (at + 1 < text.size() && is_plain(text[at - 1]) && is_plain(text[at + 1]) && text[at + 1] != '/') return at + 1;
  }
  if (limit == text.size()) return limit;
  // Not within a character, whose begin is at most three bytes back.
  for (std::size_t at = limit; at + 4 > limit; --at) {
    if ((static_cast<unsigned char>(text[at]) & 0xc0) != 0x80) return at;
  }
  return limit;
}

}  // namespace millrace::runtime
