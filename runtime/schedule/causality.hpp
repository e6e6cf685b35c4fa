#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {

/// An action by its place: list of `rank`, entry `index`.
struct ActionPlace {
  RankId rank;
  int index = -1;
};

/// Where each (stage, microbatch) has its forward, its input gradient (I or B) and its last use (W or B).
/// Built in one pass; -1 where the schedule has none. Refers to the schedule, which must outlive it.
class ActionTable {
 public:
  explicit ActionTable(const Schedule& schedule);

  [[nodiscard]] int forward(StageId stage, MicrobatchId m) const { return forward_[at(stage, m)]; }
  [[nodiscard]] int gradient(StageId stage, MicrobatchId m) const { return gradient_[at(stage, m)]; }
  [[nodiscard]] int last(StageId stage, MicrobatchId m) const { return last_[at(stage, m)]; }

  /// The action that makes the token `action` waits for, also where both are on one rank: F(s) for F(s+1), I or B(s+1) for I or B(s).
  [[nodiscard]] std::optional<ActionPlace> token_source(const Action& action) const;

 private:
  [[nodiscard]] std::size_t at(StageId stage, MicrobatchId m) const { return stage.index() * microbatches_ + m.index(); }

  const Placement* placement_;
  std::size_t microbatches_;
  std::vector<int> forward_, gradient_, last_;  // by stage and microbatch: index in the list of the stage's rank
};

/// All actions in an order in which each follows the one before it in its list and the maker of its token.
/// Error(config) where there is none: the schedule is dead (validate.hpp explains why).
[[nodiscard]] std::vector<ActionPlace> causal_order(const Schedule& schedule, const ActionTable& table);

/// What each action knows of one rank: for every action, the number of entries of `observed`'s list that have finished
/// for certain when that action starts, whatever the timing (a vector clock, one component at a time).
/// Result by rank and index. `order` is causal_order(schedule, table).
[[nodiscard]] std::vector<std::vector<int>> finished_before_start(const Schedule& schedule, const ActionTable& table,
                                                                  const std::vector<ActionPlace>& order, RankId observed);

}  // namespace millrace::runtime
