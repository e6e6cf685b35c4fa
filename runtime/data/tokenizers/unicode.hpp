#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace millrace::runtime {

/// The character classes that the split patterns use, by Unicode 15: \p{L}, \p{N}, \s (the property White_Space), and carriage
/// return and line feed within White_Space.
enum CharacterClass : std::uint8_t { other_character = 0, letter = 1, number = 2, space = 4, line_end = 8 };

/// A table with one CharacterClass (line ends are `space | line_end`) per code point below 0x110000. Built at the first call,
/// never freed.
[[nodiscard]] const std::uint8_t* character_classes();

/// Appends the normalisation form C of a well-formed text to `out`. O(n log n) for any text. Text that is in that form already
/// needs no allocation.
void append_nfc(std::string_view text, std::string& out);

/// The well-formed text for a comparison that ignores case, marks and compatibility forms: decomposed by compatibility (NFKD), without
/// characters of the categories Mn, Mc and Me, in lower case.
[[nodiscard]] std::string folded_text(std::string_view text);

/// The text in capital or small letters, character by character; bytes that are not UTF-8 stay.
[[nodiscard]] std::string upper_case(std::string_view text);
[[nodiscard]] std::string lower_case(std::string_view text);

/// Quick check whether normalisation form C would leave the well-formed text unchanged: true is certain, false may be wrong.
[[nodiscard]] bool is_surely_nfc(std::string_view text) noexcept;

}  // namespace millrace::runtime
