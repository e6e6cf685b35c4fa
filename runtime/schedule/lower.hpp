#pragma once

#include <string>
#include <vector>

#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {

/// Lowers a schedule to the cells of a full table, by rank: after each action (or pair) that makes a token for another rank a SEND cell,
/// and on that rank a RECV cell, at the place where the sender had got to when the ranks are stepped in turn. So for every two ranks the
/// orders of sends and receives agree. A token for the own rank, as at the bend of a V, moves without cells.
///
///     0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1
///     1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1
///
/// Error(config) naming where each rank stops, if the schedule is dead.
[[nodiscard]] std::vector<std::vector<std::string>> lower(const Schedule& schedule);

}  // namespace millrace::runtime
