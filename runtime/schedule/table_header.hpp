#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {

/// The '#' lines of a table, see table.hpp. What a file does not say is not set.
struct TableFacts {
  std::optional<int> ranks, chunks, microbatches;
  std::optional<std::string> placement;  // in small letters
  std::optional<std::uint64_t> hash;
};

/// Reads one line that begins with '#' into `facts`; remarks are passed over. `place` is file and line, for messages.
void read_header_line(std::string_view line, const std::string& place, TableFacts& facts);

/// The placement that the header names, for a table of so many lines and stages; nothing where it names none or by-hand.
[[nodiscard]] std::optional<Placement> placement_of(const TableFacts& facts, int ranks, int stages, const std::string& name);

/// Error(config) naming both numbers where the header does not fit the schedule.
void check_header(const TableFacts& facts, const Schedule& schedule);

/// The lines that describe a schedule.
[[nodiscard]] std::string print_header(const Schedule& schedule);

}  // namespace millrace::runtime
