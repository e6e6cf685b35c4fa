#pragma once

#include <string>
#include <vector>

#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {

/// The full table of a schedule (full_table.hpp) as the cells of a table file, by rank; a pair is one cell.
///
///     0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1
///     1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1
///
/// Error(config) with the wait-for report if the schedule deadlocks.
[[nodiscard]] std::vector<std::vector<std::string>> lower(const Schedule& schedule);

}  // namespace millrace::runtime
