#pragma once

#include <deque>
#include <string>
#include <vector>

#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {

/// A schedule with an empty list for every rank, for generators to fill.
[[nodiscard]] Schedule blank_schedule(std::string name, Placement placement, int microbatches);

/// Writes the list of one rank in terms of a schedule's rule: "the next forward of this stage". The microbatch follows from what
/// was written before, so a stage's microbatches always ascend for F, for I and B together, and for W. A rule may continue past
/// the last microbatch: such calls write nothing.
class ListWriter {
 public:
  ListWriter(Schedule& schedule, RankId rank);

  void forward(StageId stage);
  void backward(StageId stage);
  /// Adds the next I of this stage; its weight gradient is pending from now on.
  void input_gradient(StageId stage);
  /// Adds the stage's oldest pending weight gradient; does nothing if there is none.
  void weight_gradient(StageId stage);
  /// Adds the rank's oldest pending weight gradient of any stage; does nothing if there is none.
  void weight_gradient();
  void remaining_weight_gradients(StageId stage);
  void remaining_weight_gradients();
  /// Adds an overlapped pair O(F;B), both in one block.
  void overlapped(StageId forward_stage, StageId backward_stage);

 private:
  struct Count {
    int forwards = 0, gradients = 0;  // gradients: I and B together
  };
  struct Debt {
    StageId stage;
    int ordinal = 0;  // index of the microbatch among those of the stage
  };
  [[nodiscard]] Count& count(StageId stage);
  void write(StageId stage, ActionKind kind, int ordinal);
  void pay(std::deque<Debt>::iterator debt);

  Schedule& schedule_;
  std::vector<Action>& list_;
  std::vector<Count> counts_;  // by chunk
  std::deque<Debt> owed_;      // in the order of their I
};

}  // namespace millrace::runtime
