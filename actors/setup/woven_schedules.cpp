#include "actors/setup/woven_schedules.hpp"

#include <algorithm>
#include <vector>

#include "runtime/engine/exchange_costs.hpp"
#include "runtime/engine/stage_shapes.hpp"
#include "runtime/schedule/replicate.hpp"
#include "runtime/schedule/simulator/simulate.hpp"
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

std::vector<runtime::ProgramSet> programs_of_a_copy(const PipelinePlan& plan) {
  std::vector<runtime::ProgramSet> programs;
  const int stages = plan.schedule.placement.stages() / plan.mesh.data;
  for (int stage = 0; stage < stages; ++stage) programs.push_back(plan.programs(runtime::StageId(stage)));
  return programs;
}

/// The step that the simulator expects, with the costs of usual machines.
double usual_step(const PipelinePlan& plan) {
  const runtime::Costs costs = runtime::usual_costs(programs_of_a_copy(plan), plan.mesh.expert);
  return runtime::simulate(runtime::one_copy(plan.schedule), costs, false).makespan;
}

/// Two woven actions whose stages share a slot of weights would gather these again at each of their segments: they stay in sequence.
void part_pairs_of_one_slot(runtime::Schedule& schedule, int slots) {
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const auto stages = schedule.placement.stages_of(runtime::RankId(rank));
    const auto slot_of = [&](runtime::StageId stage) { return (std::ranges::find(stages, stage) - stages.begin()) % slots; };
    auto& list = schedule.ranks[rank];
    for (std::size_t index = 0; index + 1 < list.size(); ++index) {
      const runtime::StageId first = list[index].stage, second = list[index + 1].stage;
      if (list[index].overlaps_next && first != second && slot_of(first) == slot_of(second)) list[index].overlaps_next = false;
    }
  }
}

}  // namespace

void choose_pairs(PipelinePlan& plan, const std::string& weave) {
  if (plan.mesh.expert == 1 || weave == "off") return change_schedules(plan, runtime::without_pairs);
  std::vector<runtime::StageShape> shapes;
  for (const auto& each : programs_of_a_copy(plan)) shapes.push_back(runtime::training_shape(each, plan.mesh.expert));
  change_schedules(plan, [&](const runtime::Schedule& one) {
    runtime::Schedule woven = runtime::with_woven_neighbours(one, shapes);
    if (plan.divides_masters()) part_pairs_of_one_slot(woven, plan.mesh.weight_slots);
    return woven;
  });
}

PipelinePlan choose_weave(PlanRequest request, const std::function<PipelinePlan(const PlanRequest&)>& make) {
  request.pipeline.weave = "off";
  PipelinePlan off = make(request);
  if (request.mesh.expert == 1) return off;
  request.pipeline.weave = "neighbours";
  PipelinePlan woven = make(request);
  return usual_step(woven) < usual_step(off) ? woven : off;
}

}  // namespace millrace::actors
