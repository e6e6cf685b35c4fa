#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/profile/step_view.hpp"
#include "runtime/schedule/simulator/cost.hpp"

namespace millrace::runtime {

struct ExchangeName {
  int layer = -1;  // −1: none
  std::string name;
};

/// The exchanges of a stage's training actions, by kind, in the order in which an action posts them.
struct ExchangeNames {
  std::array<std::vector<ExchangeName>, all_action_kinds.size()> names;
  [[nodiscard]] std::vector<ExchangeName>& of(ActionKind kind) { return names[static_cast<std::size_t>(kind)]; }
  [[nodiscard]] const std::vector<ExchangeName>& of(ActionKind kind) const { return names[static_cast<std::size_t>(kind)]; }
};

/// Which ranks exchange rows inside of their actions, and between which segments; empty if none does.
struct Exchanging {
  std::vector<StageShape> shapes;            // by stage
  std::vector<std::vector<RankId>> members;  // by rank: those that exchange rows with it, itself included
  std::vector<ExchangeNames> names;          // by stage; empty: not known
};

/// The measured costs of the stages: for each stage and kind, the mean over all its actions in the steps, in milliseconds, without waits
/// for exchanges. Kinds that the schedule does not use cost nothing; links are free. An exchange takes the shortest time that was between
/// the post of its last member and the segment that awaits it.
[[nodiscard]] Costs mean_costs(const Schedule& schedule, std::span<const StepView> steps, const Exchanging& exchanging = {});

}  // namespace millrace::runtime
