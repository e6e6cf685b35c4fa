#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/schedule/action.hpp"

namespace millrace::runtime {

/// One cell of a schedule's table, in the form that PyTorch's pipelining reads:
///
///     cell   := [ single | pair ]
///     single := stage op [ microbatch ]         0F0  3I2  2SEND_F1  1UNSHARD
///     pair   := "(" F ";" B or I ")OVERLAP_F_B"  (0F5;7B0)OVERLAP_F_B
///     op     := F I W B SEND_F RECV_F SEND_B RECV_B UNSHARD RESHARD REDUCE_GRAD OPT CKPT_SNAP
///
/// Gives one action, the two of a pair, or none for an empty cell and for what only moves data or closes a step, which is implicit here.
/// Error(config) tells the text and what was wanted.
[[nodiscard]] std::vector<Action> parse_cell(std::string_view text);

/// The cells of a list, pairs as one.
[[nodiscard]] std::vector<std::string> print_cells(const std::vector<Action>& list);

/// The same, joined by commas.
[[nodiscard]] std::string print_row(const std::vector<Action>& list);

}  // namespace millrace::runtime
