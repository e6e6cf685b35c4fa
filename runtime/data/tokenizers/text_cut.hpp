#pragma once

#include <cstddef>
#include <string_view>

namespace millrace::runtime {

/// Where a long text may be cut so that its parts, the later ones by encode_rest(), have the ids of the whole: behind the first line end at
/// or after `wanted` that stands between two characters of ASCII which are no white space, the second
/// no slash either. All split patterns of published tokenizers begin
/// a piece there, and no normalisation reaches across. A text that has no such place within 16 * `wanted` bytes is cut between two
/// characters there, and those at the border may be encoded otherwise than in the whole. text.size() if the rest is shorter. `wanted` >= 1.
[[nodiscard]] std::size_t next_cut(std::string_view text, std::size_t wanted) noexcept;

}  // namespace millrace::runtime
