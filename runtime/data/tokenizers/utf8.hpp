#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace millrace::runtime {

/// A character of a text: its code point and its length in bytes. `length` is 0 at the end of the text and where no well-formed
/// character begins (Unicode 15, table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF).
struct Character {
  std::uint32_t code = 0;
  std::uint32_t length = 0;
};

[[nodiscard]] inline Character character_at(std::string_view text, std::size_t at) noexcept {
  const auto byte = [&](std::size_t i) -> std::uint32_t { return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0; };
  if (at >= text.size()) return {};
  const std::uint32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const auto follows = [](std::uint32_t value) { return (value & 0xc0) == 0x80; };
  if (first >= 0xc2 && first < 0xe0 && follows(byte(1))) return {(first & 0x1f) << 6 | (byte(1) & 0x3f), 2};
  if (first >= 0xe0 && first < 0xf0 && follows(byte(1)) && follows(byte(2))) {
    const std::uint32_t code = (first & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f);
    if (code >= 0x800 && (code < 0xd800 || code > 0xdfff)) return {code, 3};
  }
  if (first >= 0xf0 && first < 0xf5 && follows(byte(1)) && follows(byte(2)) && follows(byte(3))) {
    const std::uint32_t code = (first & 0x07) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f);
    if (code >= 0x10000 && code <= 0x10ffff) return {code, 4};
  }
  return {};
}

/// The end of the run of well-formed characters that begins at `from`; `from` itself if none does.
[[nodiscard]] std::size_t end_of_valid(std::string_view text, std::size_t from) noexcept;
/// The end of the run of invalid bytes that begins at `from`; `from` itself if none does.
[[nodiscard]] std::size_t end_of_invalid(std::string_view text, std::size_t from) noexcept;

/// Whether the text is well-formed UTF-8 and does not contain U+FFFD, which replaces bytes that were not.
[[nodiscard]] bool is_readable(std::string_view text) noexcept;

/// SentencePiece's piece for a byte: "<0xE2>".
[[nodiscard]] std::string byte_piece(std::size_t byte);

/// Appends a code point of at most U+10FFFF that is no surrogate.
void append_character(std::uint32_t code, std::string& text);

}  // namespace millrace::runtime
