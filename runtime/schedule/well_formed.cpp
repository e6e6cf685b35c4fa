#include <algorithm>
#include <array>

#include "kernels/base/check.hpp"
#include "runtime/schedule/component.hpp"
#include "runtime/schedule/validate.hpp"

namespace millrace::runtime {
namespace {

// What a rank's list contains so far for one stage and microbatch.
struct Seen {
  int forward = 0, input = 0, weight = 0, backward = 0;
  int& of(ActionKind kind) {
    switch (kind) {
      case ActionKind::forward:
        return forward;
      case ActionKind::input_gradient:
        return input;
      case ActionKind::weight_gradient:
        return weight;
      default:
        return backward;
    }
  }
};

// The three separate orders of rule 4; I and B share one.
std::size_t order_of(ActionKind kind) { return kind == ActionKind::forward ? 0 : kind == ActionKind::weight_gradient ? 2 : 1; }

void check_range(const Schedule& schedule, RankId rank, const Action& action) {
  MILLRACE_CHECK(action.stage.value >= 0 && action.stage.value < schedule.placement.stages(), ExitCode::config, schedule_component,
                 "rank {}, action {}: stage {} is unknown, expected 0 to {}", rank, action, action.stage, schedule.placement.stages() - 1);
  MILLRACE_CHECK(action.microbatch.value >= 0 && action.microbatch.value < schedule.microbatches, ExitCode::config, schedule_component,
                 "rank {}, action {}: microbatch {} is unknown, expected 0 to {}", rank, action, action.microbatch,
                 schedule.microbatches - 1);
  MILLRACE_CHECK(schedule.has(action.stage, action.microbatch), ExitCode::config, schedule_component,
                 "rank {}, action {}: replica {} of the model, to which stage {} belongs, takes the microbatches that are {} modulo {}",
                 rank, action, schedule.placement.replica_of(action.stage), action.stage, schedule.placement.replica_of(action.stage),
                 schedule.placement.replicas());
  MILLRACE_CHECK(schedule.placement.rank_of(action.stage) == rank, ExitCode::config, schedule_component,
                 "rank {}, action {}: stage {} belongs to rank {}", rank, action, action.stage, schedule.placement.rank_of(action.stage));
}

void check_history(RankId rank, const Action& action, const Seen& before, bool forward_only) {
  const auto once = [&](bool good, const char* rule) {
    MILLRACE_CHECK(good, ExitCode::config, schedule_component, "rank {}, action {}: {}", rank, action, rule);
  };
  switch (action.kind) {
    case ActionKind::forward:
      once(before.forward == 0, "a second forward of this stage and microbatch");
      break;
    case ActionKind::input_gradient:
    case ActionKind::backward:
      once(before.forward == 1, "comes before its forward");
      once(before.input + before.backward == 0, "a second I or B of this stage and microbatch");
      break;
    case ActionKind::weight_gradient:
      once(before.backward == 0, "a W beside a B of this stage and microbatch");
      once(before.input == 1, "comes before its I");
      once(before.weight == 0, "a second W of this stage and microbatch");
      break;
  }
  once(!forward_only || action.kind == ActionKind::forward, "is not a forward, in a forward-only schedule");
}

void check_complete(const Schedule& schedule, const std::vector<Seen>& seen, bool forward_only) {
  for (int stage = 0; stage < schedule.placement.stages(); ++stage) {
    for (int m = 0; m < schedule.microbatches; ++m) {
      if (!schedule.has(StageId{stage}, MicrobatchId{m})) continue;
      const Seen& entry = seen[static_cast<std::size_t>(stage * schedule.microbatches + m)];
      const char* missing = entry.forward == 0                                         ? "F"
                            : forward_only                                             ? nullptr
                            : entry.input + entry.backward == 0                        ? "B (or I and W)"
                            : entry.backward == 0 && entry.input == 1 && !entry.weight ? "W"
                                                                                       : nullptr;
      MILLRACE_CHECK(missing == nullptr, ExitCode::config, schedule_component,
                     "schedule \"{}\": stage {} on rank {} has no {} for microbatch {}", schedule.name, stage,
                     schedule.placement.rank_of(StageId{stage}), missing, m);
    }
  }
}

// Checks rule 5. Whether one half needs the other by way of other ranks is found by the replay.
void check_pair(RankId rank, const std::vector<Action>& list, std::size_t index) {
  const Action& first = list[index];
  if (!first.overlaps_next) return;
  MILLRACE_CHECK(index + 1 < list.size(), ExitCode::config, schedule_component,
                 "rank {}, action {}: begins an overlapped pair, and no action follows", rank, first);
  const Action& second = list[index + 1];
  MILLRACE_CHECK(!second.overlaps_next, ExitCode::config, schedule_component,
                 "rank {}, pair ({};{}): its second half begins another pair; pairs do not chain", rank, first, second);
  MILLRACE_CHECK(first.microbatch != second.microbatch, ExitCode::config, schedule_component,
                 "rank {}, pair ({};{}): both halves are of microbatch {}, expected two different ones", rank, first, second,
                 first.microbatch);
}

}  // namespace

void check_well_formed(const Schedule& schedule) {
  const auto stages = static_cast<std::size_t>(schedule.placement.stages());
  MILLRACE_CHECK(schedule.microbatches >= 1, ExitCode::config, schedule_component,
                 "schedule \"{}\" has {} microbatches, expected 1 or more", schedule.name, schedule.microbatches);
  MILLRACE_CHECK(static_cast<int>(schedule.ranks.size()) == schedule.placement.ranks(), ExitCode::config, schedule_component,
                 "schedule \"{}\" has {} lists, expected one for each of {} ranks", schedule.name, schedule.ranks.size(),
                 schedule.placement.ranks());
  const bool forward_only = schedule.forward_only();
  std::vector<Seen> seen(stages * static_cast<std::size_t>(schedule.microbatches));
  std::vector<std::array<int, 3>> newest(stages, {-1, -1, -1});
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (std::size_t index = 0; index < schedule.ranks[rank].size(); ++index) {
      const Action& action = schedule.ranks[rank][index];
      check_range(schedule, RankId{rank}, action);
      check_pair(RankId{rank}, schedule.ranks[rank], index);
      Seen& entry = seen[action.stage.index() * static_cast<std::size_t>(schedule.microbatches) + action.microbatch.index()];
      check_history(RankId{rank}, action, entry, forward_only);
      ++entry.of(action.kind);
      int& before = newest[action.stage.index()][order_of(action.kind)];
      MILLRACE_CHECK(before < action.microbatch.value, ExitCode::config, schedule_component,
                     "rank {}, action {}: comes after microbatch {} of this stage; microbatches must ascend for F, for I and B, and for W",
                     rank, action, before);
      before = action.microbatch.value;
    }
  }
  check_complete(schedule, seen, forward_only);
}

}  // namespace millrace::runtime
