#include "actors/setup/woven_schedules.hpp"

#include <algorithm>
#include <vector>

#include "runtime/engine/stage_shapes.hpp"
#include "runtime/schedule/replicate.hpp"
#include "runtime/schedule/weave_pairs.hpp"

namespace millrace::actors {
namespace {

/// The schedules of one copy, changed by `change`, for all copies, and the slots that they need.
template <class Change>
void change_schedules(PipelinePlan& plan, Change change) {
  const auto all = [&](runtime::Schedule& schedule) {
    const runtime::Schedule one = change(runtime::one_copy(schedule));
    schedule = runtime::replicate(one, plan.mesh.data);
    return runtime::replicate(runtime::make_ledger(one), one.placement, plan.mesh.data);
  };
  plan.ledger = all(plan.schedule);
  for (auto& smaller : plan.smaller_schedules) plan.ledger = runtime::larger_of(plan.ledger, all(smaller));
}

}  // namespace

void choose_pairs(PipelinePlan& plan, const std::string& weave) {
  if (plan.mesh.expert == 1 || weave == "off") return change_schedules(plan, runtime::without_pairs);
  std::vector<runtime::StageShape> shapes;
  const int stages = plan.schedule.placement.stages() / plan.mesh.data;
  for (int stage = 0; stage < stages; ++stage) shapes.push_back(runtime::training_shape(plan.programs(runtime::StageId(stage))));
  change_schedules(plan, [&](const runtime::Schedule& one) { return runtime::with_woven_neighbours(one, shapes); });
}

}  // namespace millrace::actors
