#include "actors/rank/rank_blueprint.hpp"

#include <algorithm>
#include <utility>

#include "actors/rank/transfer_path.hpp"
#include "cluster/links/link.hpp"
#include "runtime/engine/stage_shapes.hpp"

namespace millrace::actors {
namespace {

constexpr int batches_ahead = 2;  // of the next step, loaded while this one computes

bool weaves(const runtime::RankPlan& plan) {
  return std::ranges::any_of(plan.entries, [](const auto& entry) { return entry.strand > 0; });
}

bool has_stage(const runtime::RankPlan& plan, runtime::StageId stage) {
  return std::any_of(plan.entries.begin(), plan.entries.end(), [&](const auto& planned) { return planned.action.stage == stage; });
}

/// How the rank's weights are divided. All its stages have the same group.
runtime::ShardDivision division_of(const PipelinePlan& plan, runtime::RankId rank) {
  const runtime::StageId stage = plan.schedule.placement.stages_of(rank).front();
  const auto replicas = [&](bool experts) {
    const ReplicaGroup group = plan.replica_group(stage, experts);
    return runtime::Replicas{static_cast<int>(group.ranks.size()), group.place_of(rank)};
  };
  return {.replicas = replicas(false),
          .expert_replicas = replicas(true),
          .bucket_bytes = static_cast<std::size_t>(plan.replicas()) * plan.mesh.window,
          .sums = plan.divides_sums(),
          .slots = plan.divides_masters() ? plan.mesh.weight_slots : 0,
          .whole_scores = plan.divides_masters() && plan.losses.qk_clip};
}

/// By stage of the model: the number of actions until its gradients are complete on all ranks that have it. All of them reduce their stages
/// in this order, since they must post their exchanges in one order, and the two directions of a mirror complete their stages in different
/// ones.
std::vector<std::size_t> ends_of_gradients(const runtime::Schedule& schedule) {
  std::vector<std::size_t> ends(static_cast<std::size_t>(schedule.placement.model_stages()), 0);
  for (const auto& list : schedule.ranks) {
    for (std::size_t index = 0; index < list.size(); ++index) {
      if (!runtime::ends_microbatch(list[index].kind)) continue;
      auto& end = ends[static_cast<std::size_t>(schedule.placement.model_stage(list[index].stage))];
      end = std::max(end, index);
    }
  }
  return ends;
}

}  // namespace

runtime::StageParameter stage_parameter(const PipelinePlan& plan, const layers::ParameterSpec& spec, runtime::StageId stage) {
  const kernels::Shape whole = runtime::whole_shape(spec.shape, spec.experts);
  kernels::MatrixForm matrices = plan.matrices.matrices(spec.name, whole, spec.stored);
  if (spec.experts.present()) matrices.count = matrices.count / spec.experts.whole * spec.shape[0];
  // The first replica with a weight owns it: of experts that are shared, the first with these experts.
  return {.name = spec.name,
          .shape = spec.shape,
          .stage = stage,
          .use = spec.use,
          .order = spec.order,
          .decays = plan.groups.decays(spec.name, whole),
          .copy = plan.is_copy(spec, stage),
          .router = spec.router,
          .trained = plan.is_trained(spec),
          .scores = spec.scores,
          .matrices = matrices,
          .experts = spec.experts,
          .tied = std::ranges::find(plan.tied, spec.name) != plan.tied.end(),
          .group = plan.groups.scalars(spec.name)};
}

std::vector<runtime::StageReplicas> stage_replicas(const PipelinePlan& plan, runtime::RankId rank) {
  const auto& placement = plan.schedule.placement;
  std::vector<runtime::StageId> stages = placement.stages_of(rank);
  const std::vector<std::size_t> ends = ends_of_gradients(plan.schedule);
  std::ranges::sort(stages, {}, [&](runtime::StageId stage) {
    const int model_stage = placement.model_stage(stage);
    return std::pair(ends[static_cast<std::size_t>(model_stage)], model_stage);
  });
  std::vector<runtime::StageReplicas> list;
  for (const runtime::StageId stage : stages)
    for (const ReplicaGroup& group : plan.replica_groups(stage))
      list.push_back({stage, group.experts, group.copies, group.place_of(rank), placement.model_stage(stage)});
  return list;
}

int batches_in_flight(const runtime::RankPlan& plan) {
  std::vector<int> last(static_cast<std::size_t>(plan.own_microbatches), -1);
  const auto place_of = [&](std::size_t index) {
    return static_cast<std::size_t>(plan.own.before(plan.entries[index].action.microbatch.value));
  };
  for (std::size_t index = 0; index < plan.entries.size(); ++index) last[place_of(index)] = static_cast<int>(index);
  // Slots are filled and released in order: a microbatch holds its slot until all earlier ones are done, and arrives after all
  // earlier ones, whether these are used yet or not (two directions do not begin together).
  std::size_t most = 0, released = 0, entered = 0;
  for (int index = 0; index < static_cast<int>(plan.entries.size()); ++index) {
    entered = std::max(entered, place_of(static_cast<std::size_t>(index)) + 1);
    most = std::max(most, entered - released);
    while (released < entered && last[released] <= index) ++released;
  }
  return static_cast<int>(most);
}

RankBlueprint::Shapes RankBlueprint::shapes() const {
  if (plan_.mesh.expert == 1) return {};
  if (!plan_.rehearsed_shapes.empty()) return {plan_.rehearsed_shapes, {}};
  const std::vector<runtime::StageShape> whole(static_cast<std::size_t>(plan_.stages()));
  Shapes shapes{whole, whole};
  for (const auto stage : plan_.schedule.placement.stages_of(rank_)) {
    const runtime::ProgramSet programs = plan_.programs(stage);
    shapes.training[stage.index()] = runtime::training_shape(programs, plan_.mesh.expert);
    shapes.forward_only[stage.index()] = runtime::forward_only_shape(programs, plan_.mesh.expert);
  }
  return shapes;
}

RankBlueprint::RankBlueprint(const PipelinePlan& plan, runtime::RankId rank, const RankResources& needs)
    : plan_(plan), rank_(rank), needs_(needs) {
  auto slots = plan.ledger.stages;
  const auto [training_shapes, forward_shapes] = shapes();
  training = runtime::make_rank_plan(plan.schedule, rank, slots, training_shapes);
  training_batches = batches_in_flight(training) + batches_ahead;
  for (const auto& schedule : plan.smaller_schedules) {
    smaller_training.push_back(runtime::make_rank_plan(schedule, rank, slots, training_shapes));
    training_batches = std::max(training_batches, batches_in_flight(smaller_training.back()) + batches_ahead);
  }
  const auto& placement = plan.schedule.placement;
  // Ranks that share experts, or gather their weights, need each other: every copy has as many forwards, the last ones perhaps of empty
  // microbatches.
  const int replicas = plan.replicas(), at_least = plan.mesh.expert > 1 || plan.divides_masters() ? replicas : 1;
  logits = runtime::make_rank_plan(runtime::forward_only(placement, at_least), rank, slots, forward_shapes);
  if (needs.evaluation_microbatches > 0) {
    const auto count = static_cast<int>(needs.evaluation_microbatches);
    const auto lists = runtime::forward_only(placement, (count + at_least - 1) / at_least * at_least);
    evaluation = runtime::make_rank_plan(lists, rank, slots, forward_shapes);
    evaluation_batches = batches_in_flight(evaluation) + batches_ahead;
  }
}

std::unique_ptr<runtime::RankCompute> RankBlueprint::build(bool plan_only) const {
  std::vector<runtime::RankStage> stages;
  for (const auto stage : plan_.schedule.placement.stages_of(rank_)) {
    const bool last = plan_.is_last(stage);
    runtime::RankStage rank_stage;
    rank_stage.stage = stage;
    rank_stage.training = plan_.programs(stage);
    if (needs_.logits && last && has_stage(logits, stage)) rank_stage.logits = plan_.programs(stage, layers::Output::logits);
    for (const auto& spec :
         layers::parameters(plan_.parameters, plan_.model, plan_.layout[stage.index()], plan_.losses, plan_.expert_group(stage).group))
      rank_stage.parameters.push_back(stage_parameter(plan_, spec, stage));
    const auto& ledger = plan_.ledger.stages.at(stage.index());
    rank_stage.slots = {ledger.stash_input, ledger.stash_weight, ledger.handoff, 0, 0, 0, 0, 0};
    if (!needs_.training) rank_stage.slots = {0, 0, 0, 0, 0, 0, 0, 0};
    if (!rank_stage.training.losses.empty() || !rank_stage.training.observations.empty())
      rank_stage.slots.results = static_cast<int>(
          plan_.schedule.order().count(0, std::max<std::int64_t>(plan_.schedule.microbatches, needs_.evaluation_microbatches)));
    stages.push_back(std::move(rank_stage));
  }
  runtime::RankOptions options;
  options.compute = plan_.compute;
  options.mode = plan_.split_backward ? runtime::BackwardMode::split : runtime::BackwardMode::fused;
  options.accumulators = plan_.accumulators;
  options.expert_accumulators = plan_.expert_accumulators;
  options.copies = plan_.replicas();
  options.expert_copies = plan_.expert_groups();
  options.leaves = needs_.training ? plan_.leaf_slots() : 0;
  options.workspaces = weaves(training) ? 2 : 1;
  if (needs_.training && plan_.divides_update()) {
    options.replicas = stage_replicas(plan_, rank_);
    options.division = division_of(plan_, rank_);
    options.window = plan_.mesh.window;
  }
  options.batches = training_batches + evaluation_batches;
  options.training = needs_.training;
  options.optimizer = plan_.optimizer;
  options.staging = needs_.staging;
  options.states_on_host = plan_.offload_states;
  options.threads = needs_.threads;
  options.plan_only = plan_only;
  options.device = needs_.device_of(rank_.value);
  // One ring for each channel that ends here, and for each that begins here and ends out of reach: in another process or on
  // another device.
  for (const auto& channel : plan_.channels()) {
    const auto way = transfer_path(channel, needs_);
    if (channel.to_rank == rank_.value || (channel.from_rank == rank_.value && way != TransferPath::shared))
      options.rings.push_back({channel.id, cluster::ring_bytes(channel), way == TransferPath::staged});
  }
  return std::make_unique<runtime::RankCompute>(std::move(stages), options);
}

}  // namespace millrace::actors
