#pragma once

#include <vector>

#include "runtime/schedule/edge.hpp"
#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {

/// Slots that one stage needs so that no microbatch's memory is taken twice. Exact maxima along the rank's own list, so they
/// hold for any timing. A region is a ring: the k-th microbatch that enters it takes slot k mod slots.
struct StageSlots {
  int stash_input = 0;   // from the start of F to the end of I or B
  int stash_weight = 0;  // from the start of F to the end of W or B
  int handoff = 0;       // from the start of I to the end of W; B needs none
};

/// The memory that a schedule asks for, in slots. Sizes of slots are the programs' affair.
struct Ledger {
  std::vector<StageSlots> stages;  // by StageId
  /// By EdgeId: the smallest ring with which the producer never waits for a slot, whatever the timing: when the action that makes token m
  /// starts, the last uses of all but depth − 1 of the tokens before it are known, by causality alone, to be over. Last use is W or B of
  /// the consuming stage (F in a forward-only schedule), for its saved input is the ring slot itself. Slots go back in order.
  std::vector<int> depths;
};

/// Computes the ledger of one step. Steps follow each other with everything drained (the gradient norm is a barrier), so a run of
/// steps needs no more. The schedule must be well formed and live. Time O(actions · ranks).
[[nodiscard]] Ledger make_ledger(const Schedule& schedule);

}  // namespace millrace::runtime
