#include "runtime/schedule/weave_pairs.hpp"

#include <utility>

#include "kernels/base/check.hpp"
#include "runtime/schedule/component.hpp"
#include "runtime/schedule/validate.hpp"

namespace millrace::runtime {
namespace {

/// Pairs neighbouring actions while the schedule stays live.
class Pairing {
 public:
  Pairing(Schedule& schedule, const std::vector<StageShape>& shapes) : schedule_(schedule), shapes_(shapes) {}

  void run() {
    // All that may be pairs at once, if that is live; else, list by list and pair by pair, those that are.
    Schedule all = schedule_;
    for (auto& list : all.ranks) each_candidate(list, [](auto& actions, std::size_t index) { return mark(actions, index); });
    if (replay_untimed(all).live) {
      schedule_ = std::move(all);
      return;
    }
    for (auto& list : schedule_.ranks)
      each_candidate(list, [this](auto& actions, std::size_t index) {
        mark(actions, index);
        actions[index].overlaps_next = replay_untimed(schedule_).live;
        return actions[index].overlaps_next;
      });
  }

 private:
  static bool mark(std::vector<Action>& list, std::size_t index) {
    list[index].overlaps_next = true;
    return true;
  }

  [[nodiscard]] bool has_exchanges(const Action& action) const { return shapes_[action.stage.index()].of(action.kind).size() > 1; }

  [[nodiscard]] bool may_be_pair(const Action& first, const Action& second) const {
    if (first.microbatch == second.microbatch) return false;
    if (first.kind == ActionKind::weight_gradient || second.kind == ActionKind::weight_gradient) return false;  // W awaits nothing
    return has_exchanges(first) || has_exchanges(second);
  }

  /// Calls pair(list, index) for every action that could begin a pair; true: it does, and its second half begins none.
  template <class Pair>
  void each_candidate(std::vector<Action>& list, Pair pair) const {
    for (std::size_t index = 0; index + 1 < list.size(); ++index) {
      if (list[index].overlaps_next) {
        ++index;
        continue;
      }
      if (list[index + 1].overlaps_next || !may_be_pair(list[index], list[index + 1])) continue;
      if (pair(list, index)) ++index;
    }
  }

  Schedule& schedule_;
  const std::vector<StageShape>& shapes_;
};

}  // namespace

Schedule without_pairs(Schedule schedule) {
  for (auto& list : schedule.ranks)
    for (Action& action : list) action.overlaps_next = false;
  return schedule;
}

Schedule with_woven_neighbours(Schedule schedule, const std::vector<StageShape>& shapes) {
  MILLRACE_CHECK(shapes.size() == static_cast<std::size_t>(schedule.placement.stages()), ExitCode::internal, schedule_component,
                 "segments of {} stages, expected {}", shapes.size(), schedule.placement.stages());
  Pairing(schedule, shapes).run();
  return schedule;
}

}  // namespace millrace::runtime
