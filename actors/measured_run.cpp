#include "actors/measured_run.hpp"

#include <map>
#include <utility>

#include "actors/rank_blueprint.hpp"
#include "runtime/program/program.hpp"

namespace millrace::actors {
namespace {

runtime::ProfiledRun described(const RunSettings& settings, const PipelinePlan& plan, int processes, int threads) {
  runtime::ProfiledRun run;
  run.model = plan.model.family;
  run.dtype = settings.train.dtype;
  run.layout = plan.layout_text();
  run.build = settings.build;
  for (const auto& parameter : plan.parameters) run.parameters += parameter.shape.elements();
  run.processes = processes;
  run.threads = threads;
  run.tokens_per_step = settings.train.microbatches * settings.train.batch * settings.train.sequence;
  run.flops_per_step = plan.model_flops(settings.train.microbatches);
  return run;
}

/// With names and costs from the programs: only times travelled.
std::vector<runtime::OperationTime> named(const PipelinePlan& plan, const std::vector<std::vector<OperationSum>>& by_rank) {
  std::vector<runtime::OperationTime> operations;
  std::map<std::int32_t, runtime::ProgramSet> programs;
  for (const auto& sums : by_rank) {
    for (const auto& sum : sums) {
      auto found = programs.find(sum.stage);
      if (found == programs.end()) found = programs.emplace(sum.stage, plan.programs(runtime::StageId(sum.stage))).first;
      const auto& operation = found->second.program(sum.kind).at(static_cast<std::size_t>(sum.index));
      const auto cost = runtime::cost(found->second, operation);
      runtime::OperationTime time;
      time.stage = runtime::StageId(sum.stage);
      time.layer = operation.layer;
      time.name = operation.name;
      time.kind = operation.rule->name();
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

std::vector<runtime::MemoryOfRank> memory_of_ranks(const PipelinePlan& plan, RankNeeds needs, int ranks_per_process,
                                                   const std::vector<std::uint64_t>& resident) {
  needs.ranks_per_process = ranks_per_process;
  std::vector<runtime::MemoryOfRank> memory;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    memory.push_back(runtime::memory_of(*RankBlueprint(plan, runtime::RankId(rank), needs).build(true)));
    memory.back().resident = static_cast<std::int64_t>(resident.at(static_cast<std::size_t>(rank)));
  }
  return memory;
}

}  // namespace

runtime::Measured measured_of(const RunSettings& settings, const PipelinePlan& plan, const RankNeeds& needs,
                              const cluster::Topology& topology, GatheredRecords gathered) {
  runtime::Measured measured;
  measured.run = described(settings, plan, topology.processes(), needs.threads);
  measured.schedule = plan.schedule;
  for (const auto& stage : plan.layout) measured.layers.push_back(stage.layer_count);
  measured.process_of_rank = std::move(gathered.processes);
  measured.clocks = std::move(gathered.clocks);
  measured.traces = std::move(gathered.traces);
  measured.operations = named(plan, gathered.operations);
  measured.memory = memory_of_ranks(plan, needs, topology.ranks_per_process(), gathered.resident_bytes);
  return measured;
}

}  // namespace millrace::actors
