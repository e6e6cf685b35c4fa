#pragma once

#include <cstddef>
#include <string_view>

namespace millrace::runtime {

/// Finds a place to cut a long text such that its parts (the later ones encoded by encode_rest()) have the same ids as the whole.
/// The cut is after the first line end at or after `target` that stands between two ASCII characters that are not white space,
/// the second not a slash either. All split patterns of published tokenizers begin a piece there, and no normalisation reaches
/// across. If there is no such place within 16 * `target` bytes, the text is cut there between two characters, and the ids at the
/// border may differ from those of the whole. Returns text.size() if the rest is shorter. `target` >= 1.
[[nodiscard]] std::size_t next_cut(std::string_view text, std::size_t target) noexcept;

}  // namespace millrace::runtime
