#pragma once

#include <cstdint>
#include <string>

namespace millrace::tests {

/// At least `size` bytes of text of every kind that a tokenizer meets (prose, code, CJK, emoji, combining marks, runs of one character,
/// line ends, characters at random), and with `invalid` bytes among them that are no UTF-8. A function of its arguments and of
/// tests/golden/tokenizers/words.txt alone: tools/reference/mixed_text.py makes the same bytes.
[[nodiscard]] std::string mixed_text(std::size_t size, std::uint64_t seed, bool invalid);

}  // namespace millrace::tests
