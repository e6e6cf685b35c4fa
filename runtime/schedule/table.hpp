#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/schedule/full_table.hpp"
#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {

/// A schedule from its table: one line a rank, cells separated by commas (cell.hpp), as in PyTorch's pipelining tables, compute-only or
/// full. Empty cells are bubbles; cells that move data are passed over, since receives are implicit here.
///
/// Lines that begin with '#' are remarks, except these, which are checked against the cells:
///
///     #millrace-schedule 1        version of this form
///     #P 4   #V 2   #M 8          ranks, chunks of a rank, microbatches, each on a line of its own
///     #placement V                single, loop, V, mirror or by-hand
///     #hash 8c1f0b7e55aa9d32      content_hash of the schedule
///
/// Without #placement, who owns a stage follows from the line its forwards stand in (a mirror needs it). `name` is named in messages and
/// becomes the schedule's. The result is well formed and free of deadlock. Errors: Error(config) with line and number of the cell, or
/// what check_schedule finds.
[[nodiscard]] Schedule parse_table(std::string_view text, const std::string& name);

/// Reads every cell and keeps none: Error(config) with line and number of the cell where the text is no table. parse_table's other errors
/// are those of a table that can be read and is wrong.
void check_cells(std::string_view text, const std::string& name);

/// The cells of a full table with its own transfers, in its own order; nothing where the text has no SEND and no RECV. `schedule` is
/// parse_table of the same text. Error(config) for a transfer of a microbatch that the schedule does not have.
[[nodiscard]] std::optional<FullTable> parse_full_table(std::string_view text, const Schedule& schedule);

/// Whether a printed table begins with the '#' lines; PyTorch cannot read those.
enum class TableHeader { with, without };

/// The compute-only table of a schedule; parse_table reads it back.
[[nodiscard]] std::string print_table(const Schedule& schedule, TableHeader header = TableHeader::with);

/// The full table: with SEND and RECV cells (lower.hpp). parse_table reads it back, PyTorch runs it. Error(config) if the schedule is dead.
[[nodiscard]] std::string print_full_table(const Schedule& schedule, TableHeader header = TableHeader::with);

}  // namespace millrace::runtime
