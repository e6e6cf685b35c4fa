#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace millrace {

/// Insertions, deletions, substitutions and swaps of neighbours that turn one into the other (optimal string alignment).
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

/// The name that was probably meant: the nearest one, the first among equals, if it is near enough to be no guess; else empty. A name
/// without its section ("steps") is near the key of that name.
[[nodiscard]] std::string nearest_name(std::string_view wrong, std::span<const std::string> names);

/// "; did you mean NAME?" or nothing.
[[nodiscard]] std::string did_you_mean(std::string_view wrong, std::span<const std::string> names);

}  // namespace millrace
