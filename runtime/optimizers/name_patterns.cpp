#include "runtime/optimizers/name_patterns.hpp"

#include <algorithm>

#include "kernels/base/check.hpp"

namespace millrace::runtime {

NamePatterns::NamePatterns(const char* key, std::span<const std::string> expressions) {
  for (const std::string& expression : expressions) {
    try {
      expressions_.emplace_back(expression);
    } catch (const std::regex_error& error) {
      fail(ExitCode::config, "runtime.optimizers", "{} has \"{}\", expected a regular expression ({})", key, expression, error.what());
    }
  }
}

bool NamePatterns::match(std::string_view name) const {
  std::string path(name);
  std::ranges::replace(path, '.', '/');
  return std::ranges::any_of(expressions_, [&](const std::regex& expression) { return std::regex_search(path, expression); });
}

}  // namespace millrace::runtime
