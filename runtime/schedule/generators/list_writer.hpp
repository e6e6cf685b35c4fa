#pragma once

#include <deque>
#include <string>
#include <vector>

#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {

/// Empty lists for every rank, for generators to fill.
[[nodiscard]] Schedule blank_schedule(std::string name, Placement placement, int microbatches);

/// Writes the list of one rank in the words of a schedule's rule: "the next forward of this stage". The microbatch follows from what was
/// written before, so the microbatches of a stage rise for F, for I and B together, and for W, whatever the rule.
/// A rule may go on beyond the last microbatch: it is followed, and nothing is written.
class ListWriter {
 public:
  ListWriter(Schedule& schedule, RankId rank);

  void forward(StageId stage);
  void backward(StageId stage);
  /// Its weight gradient is owed from now on.
  void input_gradient(StageId stage);
  /// The oldest that this stage owes; nothing where it owes none.
  void weight_gradient(StageId stage);
  /// The oldest that any stage of the rank owes; nothing where none is owed.
  void weight_gradient();
  void remaining_weight_gradients(StageId stage);
  void remaining_weight_gradients();
  /// O(F;B): both in one block.
  void overlapped(StageId forward_stage, StageId backward_stage);

 private:
  struct Count {
    int forwards = 0, gradients = 0;  // I and B together
  };
  struct Debt {
    StageId stage;
    int ordinal = 0;  // of the microbatch among those of the stage
  };
  [[nodiscard]] Count& count(StageId stage);
  void write(StageId stage, ActionKind kind, int ordinal);
  void pay(std::deque<Debt>::iterator debt);

  Schedule& schedule_;
  std::vector<Action>& list_;
  std::vector<Count> counts_;  // by chunk
  std::deque<Debt> owed_;      // in the order of the I
};

}  // namespace millrace::runtime
