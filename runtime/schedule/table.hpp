#pragma once

#include <string>
#include <string_view>

#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {

/// A schedule from its table: one line a rank, cells separated by commas ("0F0,0F1,0B0"), empty cells are bubbles, lines that begin with
/// '#' are remarks. The form of PyTorch's compute-only pipelining tables; cells that move data (SEND_F, RECV_B, …) are passed over, since
/// receives are implicit here. Who owns a stage follows from the line its forwards stand in. `name` is named in messages. The result is
/// well formed and free of deadlock. Errors: Error(config) with line and column of the cell, or what check_schedule finds.
[[nodiscard]] Schedule parse_table(std::string_view text, const std::string& name);

/// The table of a schedule; parse_table reads it back.
[[nodiscard]] std::string print_table(const Schedule& schedule);

}  // namespace millrace::runtime
