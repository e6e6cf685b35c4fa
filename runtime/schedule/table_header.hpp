#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {

/// The '#' lines of a table, see table.hpp. Fields that the file does not give are not set.
struct TableFacts {
  std::optional<int> ranks, chunks, microbatches;
  std::optional<std::string> placement;  // in lower case
  std::optional<std::uint64_t> hash;
};

/// Parses one line that begins with '#' into `facts`; comments are skipped. `place` is file and line, for messages.
void read_header_line(std::string_view line, const std::string& place, TableFacts& facts);

/// The placement that the header names, for a table with this number of rows and stages; nothing if it names none or by-hand.
[[nodiscard]] std::optional<Placement> placement_of(const TableFacts& facts, int ranks, int stages, const std::string& name);

/// Error(config) with both numbers if the header does not match the schedule.
void check_header(const TableFacts& facts, const Schedule& schedule);

/// The header lines for a schedule.
[[nodiscard]] std::string print_header(const Schedule& schedule);

}  // namespace millrace::runtime
