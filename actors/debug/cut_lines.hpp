#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace millrace::actors {

/// The text with every line of more than `width` characters cut, and "…" as its last character. A character is one code point of
/// UTF-8, since the debugger prints none that is wider. Width 0: the text as it is.
[[nodiscard]] std::string cut_lines(std::string_view text, std::size_t width);

}  // namespace millrace::actors
