#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/schedule/full_table.hpp"
#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {

/// Parses a schedule from its table: one line per rank, cells separated by commas (cell.hpp), as in PyTorch's pipelining tables,
/// compute-only or full. Empty cells are bubbles; cells that move data are skipped, since receives are implicit here.
///
/// Lines that begin with '#' are comments, except these, which are checked against the cells:
///
///     #millrace-schedule 1        version of this format
///     #P 4   #V 2   #M 8          ranks, chunks of a rank, microbatches, each on a line of its own
///     #placement V                single, loop, V, mirror or by-hand
///     #hash 8c1f0b7e55aa9d32      content_hash of the schedule
///
/// Without #placement, the owner of a stage is the rank whose line contains its forwards (a mirror must be named). `name` is used
/// in messages and becomes the schedule's name. The result is well formed and free of deadlock. Errors: Error(config) with line
/// and cell number, or what check_schedule finds.
[[nodiscard]] Schedule parse_table(std::string_view text, const std::string& name);

/// Parses every cell and discards it: Error(config) with line and cell number if the text is not a table. parse_table()'s further
/// errors concern tables that can be parsed but are wrong.
void check_cells(std::string_view text, const std::string& name);

/// The cells of a full table with its own transfers, in its own order; nothing if the text has no SEND or RECV. `schedule` is
/// parse_table() of the same text. Error(config) for a transfer of a microbatch that the schedule does not have.
[[nodiscard]] std::optional<FullTable> parse_full_table(std::string_view text, const Schedule& schedule);

/// Whether a printed table begins with the '#' lines, which PyTorch cannot read.
enum class TableHeader { with, without };

/// The compute-only table of a schedule; parse_table() can read it.
[[nodiscard]] std::string print_table(const Schedule& schedule, TableHeader header = TableHeader::with);

/// The full table: with SEND and RECV cells (lower.hpp). parse_table() can read it, and PyTorch can run it. Error(config) if the
/// schedule deadlocks.
[[nodiscard]] std::string print_full_table(const Schedule& schedule, TableHeader header = TableHeader::with);

}  // namespace millrace::runtime
