// The values that a key accepts: as text for messages, and as a check.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "configs/schema.hpp"

namespace millrace::configs {

std::string expected_text(const Key& key) {
  const std::string unit = key.unit.empty() ? "" : " (" + key.unit + ")";
  switch (key.kind) {
    case Kind::boolean:
      return "true or false";
    case Kind::integer:
      return fmt::format("an integer from {} to {}{}", static_cast<std::int64_t>(key.least), static_cast<std::int64_t>(key.most), unit);
    case Kind::number:
      return fmt::format("a number {} {} to {}{}", key.least == above_zero ? "above" : "from", key.least == above_zero ? 0.0 : key.least,
                         key.most, unit);
    case Kind::text:
      return key.choices.empty() ? "a string" : fmt::format("one of {}", fmt::join(key.choices, ", "));
    case Kind::list:
      return key.choices.empty() ? "a string or a list of strings" : fmt::format("some of {}", fmt::join(key.choices, ", "));
    case Kind::numbers:
      return fmt::format("a list of numbers {} {} to {}", key.least == above_zero ? "above" : "from",
                         key.least == above_zero ? 0.0 : key.least, key.most);
    case Kind::integers:
      return fmt::format("a list of integers from {} to {}", static_cast<std::int64_t>(key.least), static_cast<std::int64_t>(key.most));
  }
  return {};
}

bool in_range(const Key& key, const Value& value) {
  const auto chosen = [&](const std::string& text) {
    return key.choices.empty() || std::ranges::find(key.choices, text) != key.choices.end();
  };
  switch (key.kind) {
    case Kind::boolean:
      return true;
    case Kind::integer: {
      const auto integer = std::get<std::int64_t>(value);
      return integer >= static_cast<std::int64_t>(key.least) && integer <= static_cast<std::int64_t>(key.most);
    }
    case Kind::number:
      return std::get<double>(value) >= key.least && std::get<double>(value) <= key.most;  // false for NaN
    case Kind::text:
      return chosen(std::get<std::string>(value));
    case Kind::list:
      return std::ranges::all_of(std::get<std::vector<std::string>>(value), chosen);
    case Kind::numbers:
      return std::ranges::all_of(std::get<std::vector<double>>(value),
                                 [&](double number) { return number >= key.least && number <= key.most; });
    case Kind::integers:
      return std::ranges::all_of(std::get<std::vector<std::int64_t>>(value), [&](std::int64_t integer) {
        return integer >= static_cast<std::int64_t>(key.least) && integer <= static_cast<std::int64_t>(key.most);
      });
  }
  return false;
}

std::string environment_name(const Key& key) {
  std::string name = "MILLRACE_" + key.name;
  for (char& character : name) character = character == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(character)));
  return name;
}

}  // namespace millrace::configs
