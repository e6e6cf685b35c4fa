#pragma once

#include <string_view>

namespace millrace {

/// The text of an Error without its "[component] " in front, for a message that has a component of its own and quotes the other one.
[[nodiscard]] constexpr std::string_view without_component(std::string_view message) {
  if (!message.starts_with('[')) return message;
  const auto end = message.find("] ");
  return end == std::string_view::npos ? message : message.substr(end + 2);
}

}  // namespace millrace
