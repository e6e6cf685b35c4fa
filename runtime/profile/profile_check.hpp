#pragma once

#include <string>
#include <vector>

namespace millrace::runtime {

/// Describes what is wrong with a profile.json; empty if it is sound, that is, if its format is known and if in every step and on
/// every rank the causes are not negative and add up to the wall time within 0.5 % of it.
[[nodiscard]] std::vector<std::string> profile_problems(const std::string& text);

}  // namespace millrace::runtime
