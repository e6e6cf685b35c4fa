#include "runtime/schedule/simulator/render.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "kernels/base/check.hpp"

namespace millrace::runtime {
namespace {

std::string label_of(const Action& action, const Placement& placement) {
  const int chunk = placement.chunk_of(action.stage);
  const char kind = letter_of(action.kind);
  if (placement.chunks() > 2) return fmt::format("{}{}{}", chunk, kind, action.microbatch);
  return fmt::format("{}{}", chunk == 1 ? static_cast<char>(std::tolower(kind)) : kind, action.microbatch);
}

// The column of a time, rounded, since costs are rarely multiples of the unit.
std::size_t column_of(double time, double unit, int columns) { return static_cast<std::size_t>(std::lround(time / unit * columns)); }

}  // namespace

std::string render(const Timeline& timeline, const Placement& placement, double unit, int columns) {
  MILLRACE_CHECK(unit > 0 && columns >= 2, ExitCode::internal, "runtime.schedule",
                 "render with a unit of {} and {} columns, expected above 0 and 2 or more", unit, columns);
  double last = 0;
  for (const auto& list : timeline.ranks) last = list.empty() ? last : std::max(last, list.back().end);
  const std::size_t width = column_of(last, unit, columns);

  const std::size_t digits = fmt::formatted_size("{}", timeline.ranks.empty() ? 0 : timeline.ranks.size() - 1);
  std::string picture;
  for (std::size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
    std::string line(width, ' ');
    for (std::size_t column = 0; column < width; column += static_cast<std::size_t>(columns)) line[column] = '.';
    const auto& list = timeline.ranks[rank];
    for (std::size_t index = 0; index < list.size(); ++index) {
      const TimedAction& timed = list[index];
      const bool pair = timed.action.overlaps_next && index + 1 < list.size();
      const std::size_t begin = column_of(timed.begin, unit, columns);
      const std::size_t end = std::max(begin, column_of(timed.end, unit, columns));
      const bool one_unit = end - begin <= static_cast<std::size_t>(columns);
      std::string cell = label_of(timed.action, placement);
      if (pair) cell += "&" + label_of(list[++index].action, placement);  // one block: both have the same times
      cell.resize(end - begin, one_unit ? ' ' : '=');
      line.replace(begin, end - begin, cell);
    }
    picture += fmt::format("r{:<{}}|{}|\n", rank, digits, line);
  }
  return picture;
}

}  // namespace millrace::runtime
