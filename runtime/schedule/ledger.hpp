#pragma once

#include <vector>

#include "runtime/schedule/edge.hpp"
#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {

/// The numbers of slots that one stage needs so that no microbatch's memory is overwritten while in use. They are exact maxima
/// along the rank's own list and so hold for any timing. A region is a ring: the k-th microbatch that enters it takes slot k mod
/// slots.
struct StashSlots {
  int stash_input = 0;   // from the start of F to the end of I or B
  int stash_weight = 0;  // from the start of F to the end of W or B
  int handoff = 0;       // from the start of I to the end of W; B needs none
};

/// The memory that a schedule needs, counted in slots. The sizes of the slots follow from the programs.
struct Ledger {
  std::vector<StashSlots> stages;  // by StageId
  /// By EdgeId: the smallest ring with which the producer never waits for a slot, whatever the timing. When the action that
  /// produces boundary m starts, causality alone guarantees that the last uses of all but depth − 1 of the earlier boundaries are
  /// over. The last use is W or B of the consuming stage (F in a forward-only schedule), since the ring slot itself serves as the
  /// saved input. Slots are freed in order.
  std::vector<int> depths;
};

/// Computes the ledger of one step. Steps are separated by a barrier (the gradient norm), with everything drained, so a sequence
/// of steps needs no more. The schedule must be well formed and live. Time O(actions · ranks).
[[nodiscard]] Ledger make_ledger(const Schedule& schedule);

/// Enough slots for both of two schedules with the same stages.
[[nodiscard]] Ledger larger_of(Ledger ledger, const Ledger& other);

}  // namespace millrace::runtime
