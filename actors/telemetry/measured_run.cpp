#include "actors/telemetry/measured_run.hpp"

#include <map>
#include <utility>

#include "actors/rank/rank_blueprint.hpp"
#include "runtime/engine/stage_shapes.hpp"
#include "runtime/program/program.hpp"

namespace millrace::actors {
namespace {

runtime::ProfiledRun described(const PipelinePlan& plan, int processes, int threads, const std::string& build) {
  runtime::ProfiledRun run;
  run.model = layers::family_title(plan.model);
  run.dtype = runtime::dtype_text(plan.compute);
  run.layout = plan.layout_text();
  run.build = build;
  for (const auto& parameter : plan.parameters) run.parameters += parameter.shape.elements();
  run.processes = processes;
  run.threads = threads;
  run.tokens_per_step = plan.schedule.microbatches * plan.rows * plan.sequence;
  run.flops_per_step = plan.model_flops(plan.schedule.microbatches);
  return run;
}

/// Adds names and costs from the programs, since only times were sent.
std::vector<runtime::OperationTime> named(const PipelinePlan& plan, const std::vector<RankCosts>& by_rank) {
  std::vector<runtime::OperationTime> operations;
  std::map<std::int32_t, runtime::ProgramSet> programs;
  for (const auto& costs : by_rank) {
    for (const auto& sum : costs.operations) {
      auto found = programs.find(sum.stage);
      if (found == programs.end()) found = programs.emplace(sum.stage, plan.programs(runtime::StageId(sum.stage))).first;
      const auto& operation = found->second.program(sum.kind).at(static_cast<std::size_t>(sum.index));
      const auto cost = runtime::cost(found->second, operation);
      runtime::OperationTime time;
      time.stage = runtime::StageId(sum.stage);
      time.layer = operation.layer;
      time.name = operation.name;
      time.kind = runtime::kind_of(operation);
      time.pass = "FIWB"[static_cast<std::size_t>(sum.kind)];
      time.count = sum.count;
      time.nanoseconds = sum.nanoseconds;
      time.flops = cost.flops * static_cast<double>(sum.count);
      time.bytes = cost.bytes * static_cast<double>(sum.count);
      operations.push_back(std::move(time));
    }
  }
  return operations;
}

std::vector<runtime::MemoryOfRank> memory_of_ranks(const PipelinePlan& plan, RankResources needs, int ranks_per_process,
                                                   const GatheredRecords& gathered) {
  needs.ranks_per_process = ranks_per_process;
  std::vector<runtime::MemoryOfRank> memory;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    memory.push_back(runtime::memory_of(*RankBlueprint(plan, runtime::RankId(rank), needs).build(true)));
    const auto place = static_cast<std::size_t>(rank);
    memory.back().resident = static_cast<std::int64_t>(gathered.resident_bytes.at(place));
    const auto& device = gathered.device_memory.at(place);
    memory.back().on_device = device.device;
    memory.back().device_planned = static_cast<std::int64_t>(device.planned);
    memory.back().device = static_cast<std::int64_t>(device.used);
  }
  return memory;
}

/// Does nothing on a CPU.
void take_device_costs(const std::vector<RankCosts>& by_rank, runtime::Measured& measured) {
  for (const auto& costs : by_rank)
    for (const auto& action : costs.actions)
      measured.device_actions.push_back(
          {runtime::StageId(action.stage), runtime::letter_of(action.kind), action.count, action.device, action.host});
  if (measured.device_actions.empty()) return;
  for (const auto& costs : by_rank) measured.launch_gaps.push_back(costs.launch_gaps);
}

/// The exchanges of a stage's training actions, in the order in which each posts them.
runtime::ExchangeNames names_of(const runtime::ProgramSet& programs) {
  runtime::ExchangeNames names;
  for (const runtime::ActionKind kind : runtime::all_action_kinds)
    for (const runtime::Segment& segment : programs.segments(runtime::program_of(runtime::pass_of(kind))))
      for (const runtime::ExchangeId id : segment.posts)
        names.of(kind).push_back({programs.exchange(id).layer, programs.exchange(id).name});
  return names;
}

}  // namespace

runtime::Exchanging exchanging_of(const PipelinePlan& plan) {
  runtime::Exchanging exchanging;
  if (plan.mesh.expert == 1) return exchanging;
  const int stages = plan.stages() / plan.mesh.data;  // of one copy: all are alike
  for (int stage = 0; stage < stages; ++stage) {
    const runtime::ProgramSet programs = plan.programs(runtime::StageId(stage));
    exchanging.shapes.push_back(runtime::training_shape(programs, plan.mesh.expert));
    exchanging.names.push_back(names_of(programs));
  }
  for (int stage = stages; stage < plan.stages(); ++stage) {
    const auto first = static_cast<std::size_t>(stage % stages);
    exchanging.shapes.push_back(exchanging.shapes[first]);
    exchanging.names.push_back(exchanging.names[first]);
  }
  for (int rank = 0; rank < plan.ranks(); ++rank) exchanging.members.push_back(plan.expert_group(runtime::RankId(rank)).ranks);
  return exchanging;
}

runtime::Measured measured_of(const PipelinePlan& plan, const RankResources& needs, const cluster::Topology& topology,
                              const std::string& build, GatheredRecords gathered) {
  runtime::Measured measured;
  measured.run = described(plan, topology.processes(), needs.threads, build);
  measured.schedule = plan.schedule;
  for (const auto& stage : plan.layout) {
    measured.layers.push_back(stage.length());
    measured.divided.push_back(stage.divides_layers());
  }
  for (int stage = 0; stage < plan.schedule.placement.model_stages(); ++stage)
    measured.modules += plan.layout[static_cast<std::size_t>(stage)].modules;
  measured.exchanging = exchanging_of(plan);
  measured.process_of_rank = std::move(gathered.processes);
  measured.clocks = std::move(gathered.clocks);
  measured.traces = std::move(gathered.traces);
  measured.operations = named(plan, gathered.costs);
  measured.memory = memory_of_ranks(plan, needs, topology.ranks_per_process(), gathered);
  take_device_costs(gathered.costs, measured);
  return measured;
}

}  // namespace millrace::actors
