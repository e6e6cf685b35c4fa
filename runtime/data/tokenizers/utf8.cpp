#include "runtime/data/tokenizers/utf8.hpp"

#include <fmt/format.h>

#include <cstring>

namespace millrace::runtime {

std::size_t end_of_valid(std::string_view text, std::size_t from) noexcept {
  while (from < text.size()) {
    std::uint64_t word = 0;  // ASCII is skipped eight bytes at a time
    while (from + 8 <= text.size()) {
      std::memcpy(&word, text.data() + from, 8);
      if ((word & 0x8080808080808080ULL) != 0) break;
      from += 8;
    }
    const Character character = character_at(text, from);
    if (character.length == 0) break;  // an invalid byte, or the end of the text
    from += character.length;
  }
  return from;
}

std::size_t end_of_invalid(std::string_view text, std::size_t from) noexcept {
  while (from < text.size() && character_at(text, from).length == 0) ++from;
  return from;
}

bool is_readable(std::string_view text) noexcept {
  return end_of_valid(text, 0) == text.size() && text.find("\uFFFD") == std::string_view::npos;
}

std::string byte_piece(std::size_t byte) { return fmt::format("<0x{:02X}>", byte); }

void append_character(std::uint32_t code, std::string& text) {
  const auto add = [&](std::uint32_t byte) { text.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
  const auto add_rest = [&](int shift) { add(0x80 | ((code >> shift) & 0x3f)); };  // six bits of the code
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xc0 | (code >> 6));
    add_rest(0);
  } else if (code < 0x10000) {
    add(0xe0 | (code >> 12));
    add_rest(6);
    add_rest(0);
  } else {
    add(0xf0 | (code >> 18));
    add_rest(12);
    add_rest(6);
    add_rest(0);
  }
}

}  // namespace millrace::runtime
