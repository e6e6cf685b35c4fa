#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace millrace::configs {

/// The value of a key: a flag, a number, a text, or a list of texts, numbers or integers.
using Value =
    std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>, std::vector<double>, std::vector<std::int64_t>>;

/// The value in TOML syntax, in a canonical form: numbers with the smallest number of digits that give the same bits, strings in
/// quotes.
[[nodiscard]] std::string to_text(const Value& value);

/// A TOML basic string with its quotes.
[[nodiscard]] std::string in_quotes(std::string_view text);

}  // namespace millrace::configs
