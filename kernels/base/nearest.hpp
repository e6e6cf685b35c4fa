#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace millrace {

/// Number of insertions, deletions, substitutions and swaps of neighbours that turn one text into the other (optimal string
/// alignment).
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

/// The name that was probably meant: the nearest one, and the first of equally near ones, if it is near enough not to be a guess;
/// otherwise empty. A name without its section ("steps") is near to the key with that name, and so are its initials ("lr" to
/// learning_rate).
[[nodiscard]] std::string nearest_name(std::string_view wrong, std::span<const std::string> names);

/// Returns "; did you mean NAME?" or an empty string.
[[nodiscard]] std::string did_you_mean(std::string_view wrong, std::span<const std::string> names);

}  // namespace millrace
