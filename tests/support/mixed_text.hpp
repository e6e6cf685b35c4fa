#pragma once

#include <cstdint>
#include <string>

namespace millrace::tests {

/// At least `size` bytes of text of every kind that a tokenizer meets (prose, code, CJK, emoji, combining marks, runs of one
/// character, line ends, random characters), with `invalid` also bytes that are not UTF-8. Depends only on its arguments and on
/// tests/golden/tokenizers/words.txt: tools/reference/mixed_text.py generates the same bytes.
[[nodiscard]] std::string mixed_text(std::size_t size, std::uint64_t seed, bool invalid);

}  // namespace millrace::tests
