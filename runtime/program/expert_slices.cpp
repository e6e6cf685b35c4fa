#include "runtime/program/expert_slices.hpp"

#include <fmt/format.h>

#include <charconv>

#include "kernels/base/check.hpp"

namespace millrace::runtime {
namespace {

constexpr std::string_view expert_border = "#expert";

}  // namespace

std::vector<ExpertRowRange> expert_row_ranges(const ExpertRows& groups, std::span<const std::int32_t> table, std::int64_t rows) {
  std::vector<ExpertRowRange> ranges;
  for (std::size_t group = 0; group + 1 < table.size(); ++group) {
    const std::int64_t first = table[group], end = table[group + 1];
    MILLRACE_CHECK(0 <= first && first <= end && end <= rows, ExitCode::internal, "runtime.expert_slices",
                   "group {} of a table has rows {} to {}, expected ascending ones of {}", group, first, end, rows);
    const auto place = static_cast<std::int64_t>(group);
    if (first < end) ranges.push_back({groups.first + place % groups.experts, place / groups.experts, first, end - first});
  }
  return ranges;
}

std::string expert_name(std::string_view tensor, std::int64_t expert) { return fmt::format("{}{}{}", tensor, expert_border, expert); }

std::optional<NamedExpert> named_expert(std::string_view name) {
  const auto border = name.rfind(expert_border);
  if (border == std::string_view::npos) return std::nullopt;
  NamedExpert named{name.substr(0, border), 0};
  const std::string_view digits = name.substr(border + expert_border.size());
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), named.expert);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return named;
}

}  // namespace millrace::runtime
