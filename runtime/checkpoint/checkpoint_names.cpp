#include "runtime/checkpoint/checkpoint_names.hpp"

#include <algorithm>
#include <charconv>

#include "runtime/checkpoint/checkpoint_records.hpp"
#include "runtime/io/file_system.hpp"

namespace millrace::runtime {

std::optional<std::uint64_t> step_of(std::string_view name) {
  constexpr std::string_view prefix = "step-";
  std::uint64_t step = 0;
  if (!name.starts_with(prefix)) return std::nullopt;
  const auto digits = name.substr(prefix.size());
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (result.ec != std::errc{} || result.ptr != digits.data() + digits.size() || checkpoint_name(step) != name) return std::nullopt;
  return step;
}

std::optional<std::uint64_t> step_put_aside(std::string_view name) {
  const auto dot = name.find(".bad");
  return dot == std::string_view::npos ? std::nullopt : step_of(name.substr(0, dot));
}

std::vector<std::uint64_t> checkpoint_steps(const std::string& folder) {
  std::vector<std::uint64_t> steps;
  if (kind_of(folder) == PathKind::missing) return steps;  // a link to a folder on another disk counts as a folder
  for (const auto& name : list_directory(folder))
    if (const auto step = step_of(name)) steps.push_back(*step);
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::string file_name_of(std::string_view path) {
  const auto slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

}  // namespace millrace::runtime
