#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/schedule/edge.hpp"
#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {

/// One cell of a full table, in which transfers stand beside the actions: an action, or one end of a token's way from rank to rank.
struct TransferCell {
  enum class Kind : std::uint8_t { compute, send, receive } kind = Kind::compute;
  Action action;                                  // of compute
  BoundaryKind token = BoundaryKind::activation;  // of send and receive
  StageId stage;                                  // whose transfer it is: a send's producer, a receive's consumer
  MicrobatchId microbatch;
  friend bool operator==(const TransferCell&, const TransferCell&) = default;
};

/// "0F0", "0SEND_F0" (stage 0 sends an activation), "1RECV_F0", "1SEND_B0" (a gradient), "0RECV_B0".
[[nodiscard]] std::string to_string(const TransferCell& cell);

/// The inverse of to_string, and a pair as its two actions: what a cell of a table file says, see cell.hpp. None for an empty cell and for
/// what closes a step. Error(config) tells the text and what was wanted.
[[nodiscard]] std::vector<TransferCell> parse_transfer_cell(std::string_view text);

/// The cells of every rank in order. The two halves of a pair are two compute cells in a row.
using FullTable = std::vector<std::vector<TransferCell>>;

/// The full table of a schedule. A send stands right after its action, the receive where the receiving rank's list stood at that moment of
/// a round in which every rank takes one entry if it can; so the sends and receives between two ranks have one order. Tokens within a
/// rank, as at the bend of a V, need no cells. Error(config) with the wait-for report where the schedule is dead.
[[nodiscard]] FullTable full_table(const Schedule& schedule);

}  // namespace millrace::runtime
