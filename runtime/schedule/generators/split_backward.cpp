#include "runtime/schedule/generators/split_backward.hpp"

#include <algorithm>

#include "runtime/schedule/validate.hpp"

namespace millrace::runtime {
namespace {

bool has_any(const Schedule& schedule, ActionKind kind) {
  return std::any_of(schedule.ranks.begin(), schedule.ranks.end(), [kind](const auto& list) {
    return std::any_of(list.begin(), list.end(), [kind](const Action& action) { return action.kind == kind; });
  });
}

}  // namespace

Schedule with_one_kind_of_backward(const Schedule& schedule) {
  if (!has_any(schedule, ActionKind::backward) || !has_any(schedule, ActionKind::input_gradient)) return schedule;
  Schedule split = schedule;
  for (auto& list : split.ranks) {
    std::vector<Action> parts;
    for (Action action : list) {
      const bool whole = action.kind == ActionKind::backward;
      if (whole) action.kind = ActionKind::input_gradient;
      parts.push_back(action);
      if (whole) parts.push_back({action.stage, ActionKind::weight_gradient, action.microbatch});
    }
    list = std::move(parts);
  }
  check_well_formed(split);
  return split;
}

}  // namespace millrace::runtime
