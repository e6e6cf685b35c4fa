#include "runtime/optimizers/name_patterns.hpp"

#include <algorithm>

#include "kernels/base/check.hpp"

namespace millrace::runtime {
namespace {

const char* words_for(std::regex_constants::error_type error) {
  using namespace std::regex_constants;
  if (error == error_brack) return "opens a bracket [ and does not close it";
  if (error == error_paren) return "has an unmatched parenthesis";
  if (error == error_brace || error == error_badbrace) return "has wrong braces {}";
  if (error == error_badrepeat) return "repeats nothing with *, + or ?";
  if (error == error_range) return "has a range whose end is before its begin";
  if (error == error_escape) return "ends in a backslash, or escapes what cannot be escaped";
  if (error == error_backref) return "refers to a group that it does not have";
  if (error == error_complexity || error == error_stack || error == error_space) return "is too complex";
  return "is not understood";
}

}  // namespace

std::string parameter_path(std::string_view name) {
  std::string path(name);
  std::ranges::replace(path, '.', '/');
  return path;
}

NamePatterns::NamePatterns(const char* key, std::span<const std::string> expressions) {
  for (const std::string& expression : expressions) {
    try {
      expressions_.emplace_back(expression);
    } catch (const std::regex_error& error) {
      fail(ExitCode::config, "runtime.optimizers", "{} has \"{}\", which {}, expected a regular expression", key, expression,
           words_for(error.code()));
    }
  }
}

bool NamePatterns::match(std::string_view name) const {
  const std::string path = parameter_path(name);
  return std::ranges::any_of(expressions_, [&](const std::regex& expression) { return std::regex_search(path, expression); });
}

}  // namespace millrace::runtime
