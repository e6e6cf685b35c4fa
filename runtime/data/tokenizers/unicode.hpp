#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace millrace::runtime {

/// What the split patterns ask of a code point, as Unicode 15 has it: \p{L}, \p{N}, \s (the property White_Space), and of White_Space
/// carriage return and line feed.
enum CharacterClass : std::uint8_t { other_character = 0, letter = 1, number = 2, space = 4, line_end = 8 };

/// One CharacterClass (line ends are `space | line_end`) for each code point below 0x110000. Made at the first call, never freed.
[[nodiscard]] const std::uint8_t* character_classes();

/// Normalisation form C of a well-formed text, appended to `out`. O(n log n) whatever the text. Nothing is allocated for what is in that
/// form already.
void append_nfc(std::string_view text, std::string& out);

/// Whether normalisation form C would leave the text, which is well-formed, as it is, as far as a quick look tells: a false may be wrong.
[[nodiscard]] bool is_surely_nfc(std::string_view text) noexcept;

}  // namespace millrace::runtime
