#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {

/// The position of an action: entry `index` in the list of `rank`.
struct ActionPlace {
  RankId rank;
  int index = -1;
};

/// The positions of each (stage, microbatch)'s forward, input gradient (I or B) and last use (W or B). Built in one pass; -1 if
/// the schedule has none. Refers to the schedule, which must outlive it.
class ActionTable {
 public:
  explicit ActionTable(const Schedule& schedule);

  [[nodiscard]] int forward(StageId stage, MicrobatchId m) const { return forward_[at(stage, m)]; }
  [[nodiscard]] int gradient(StageId stage, MicrobatchId m) const { return gradient_[at(stage, m)]; }
  [[nodiscard]] int last(StageId stage, MicrobatchId m) const { return last_[at(stage, m)]; }

  /// The action that produces the boundary that `action` waits for, also if both are on one rank: F(s) for F(s+1), I or B(s+1)
  /// for I or B(s).
  [[nodiscard]] std::optional<ActionPlace> boundary_source(const Action& action) const;

 private:
  [[nodiscard]] std::size_t at(StageId stage, MicrobatchId m) const { return stage.index() * microbatches_ + m.index(); }

  const Placement* placement_;
  std::size_t microbatches_;
  std::vector<int> forward_, gradient_, last_;  // by stage and microbatch: index in the list of the stage's rank
};

/// All actions in a topological order: each comes after the one before it in its list and after the producer of its boundary.
/// Error(config) if there is no such order because the schedule deadlocks (validate.hpp explains why).
[[nodiscard]] std::vector<ActionPlace> causal_order(const Schedule& schedule, const ActionTable& table);

/// For every action, the number of entries of `observed`'s list that are certain to have finished when that action starts,
/// whatever the timing (one component of a vector clock). The result is indexed by rank and entry. `order` is
/// causal_order(schedule, table).
[[nodiscard]] std::vector<std::vector<int>> finished_before_start(const Schedule& schedule, const ActionTable& table,
                                                                  const std::vector<ActionPlace>& order, RankId observed);

}  // namespace millrace::runtime
