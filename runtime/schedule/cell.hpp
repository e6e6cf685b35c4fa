#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/schedule/action.hpp"

namespace millrace::runtime {

/// Parses one cell of a schedule's table in the format of PyTorch's pipelining:
///
///     cell   := [ single | pair ]
///     single := stage op [ microbatch ]         0F0  3I2  2SEND_F1  1UNSHARD
///     pair   := "(" F ";" B or I ")OVERLAP_F_B"  (0F5;7B0)OVERLAP_F_B
///             | "(" op ";" op ")OVERLAP"         (0F5;0F6)OVERLAP, which is ours
///     op     := F I W B SEND_F RECV_F SEND_B RECV_B UNSHARD RESHARD REDUCE_GRAD OPT CKPT_SNAP
///
/// Returns one action, the two of a pair, or none for an empty cell and for operations that only move data or end a step, which
/// are implicit here. Error(config) with the text and what was expected.
[[nodiscard]] std::vector<Action> parse_cell(std::string_view text);

/// The cells of a list; a pair is one cell.
[[nodiscard]] std::vector<std::string> print_cells(const std::vector<Action>& list);

/// The same, joined by commas.
[[nodiscard]] std::string print_row(const std::vector<Action>& list);

}  // namespace millrace::runtime
