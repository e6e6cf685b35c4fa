#pragma once

#include <string>
#include <vector>

namespace millrace::runtime {

/// What is wrong with a profile.json; empty where it is sound: its format is known, and in every step and on every rank the causes are not
/// negative and add up to the wall time within 0.5 % of it.
[[nodiscard]] std::vector<std::string> profile_problems(const std::string& text);

}  // namespace millrace::runtime
