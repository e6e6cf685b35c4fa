#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/schedule/edge.hpp"
#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {

/// One cell of a full table, which contains transfers beside the actions: an action, or one end of a boundary's transfer from
/// rank to rank.
struct TransferCell {
  enum class Kind : std::uint8_t { compute, send, receive } kind = Kind::compute;
  Action action;                                     // if the cell is compute
  BoundaryKind boundary = BoundaryKind::activation;  // if the cell is a send or receive
  StageId stage;                                     // the stage at this end: the producer for a send, the consumer for a receive
  MicrobatchId microbatch;
  friend bool operator==(const TransferCell&, const TransferCell&) = default;
};

/// "0F0", "0SEND_F0" (stage 0 sends an activation), "1RECV_F0", "1SEND_B0" (a gradient), "0RECV_B0".
[[nodiscard]] std::string to_string(const TransferCell& cell);

/// The inverse of to_string(); a pair gives its two actions. Accepts every cell of a table file, see cell.hpp. Returns none for
/// an empty cell and for operations that end a step. Error(config) with the text and what was expected.
[[nodiscard]] std::vector<TransferCell> parse_transfer_cell(std::string_view text);

/// The cells of every rank in order. The two halves of a pair are two consecutive compute cells.
using FullTable = std::vector<std::vector<TransferCell>>;

/// The full table of a schedule. A send stands right after its action. A receive is placed at the position that the receiving
/// rank's list had reached when the tensor was sent, in an execution by rounds in which every rank takes one entry if it can; this
/// gives the sends and receives between two ranks the same order. Transfers within a rank, as at the bend of a V, need no cells.
/// Error(config) with the wait-for report if the schedule deadlocks.
[[nodiscard]] FullTable full_table(const Schedule& schedule);

}  // namespace millrace::runtime
