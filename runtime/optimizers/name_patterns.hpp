#pragma once

#include <regex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::runtime {

/// A parameter's name with "/" in place of ".", which patterns are searched in.
[[nodiscard]] std::string parameter_path(std::string_view name);

/// Regular expressions that select parameters by name, as a key of [train] lists them. They are searched in the parameter's path, which is
/// its name with "/" in place of ".": "params/decoder/layers_0/mlp/wi_0/kernel".
class NamePatterns {
 public:
  NamePatterns() = default;  // selects nothing
  /// Throws Error(config), naming `key`, for an entry that is not a regular expression.
  NamePatterns(const char* key, std::span<const std::string> expressions);

  [[nodiscard]] bool empty() const noexcept { return expressions_.empty(); }
  /// Whether one of the expressions is found in the name.
  [[nodiscard]] bool match(std::string_view name) const;

 private:
  std::vector<std::regex> expressions_;
};

}  // namespace millrace::runtime
