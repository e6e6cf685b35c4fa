#include "actors/setup/pipeline_plan.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "actors/setup/woven_schedules.hpp"
#include "cluster/exchange/exchange.hpp"
#include "kernels/base/buffer.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "runtime/engine/rank_memory.hpp"
#include "runtime/engine/shard_layout.hpp"
#include "runtime/io/file_system.hpp"
#include "runtime/passes/differentiate.hpp"
#include "runtime/schedule/edge.hpp"
#include "runtime/schedule/generators/split_backward.hpp"
#include "runtime/schedule/replicate.hpp"
#include "runtime/schedule/sum_tree.hpp"
#include "runtime/schedule/table.hpp"

namespace millrace::actors {
namespace {

constexpr const char* plan_component = "actors.plan";

/// The multiple of `step` that is nearest to a number, at least `step`.
std::int64_t nearest_multiple(std::int64_t number, std::int64_t step) { return std::max(step, (number + step / 2) / step * step); }

/// The largest number of copies up to `most` for which `holds`.
template <class Condition>
std::int64_t fewer_copies(std::int64_t most, Condition holds) {
  while (most > 1 && !holds(most)) --most;
  return most;
}

/// "the 4 copies" or, where each is a mirror, "the 8 replicas of 4 copies (each has two directions)".
std::string replicas_text(const runtime::Placement& placement) {
  if (placement.directions() == 1) return fmt::format("the {} copies", placement.copies());
  if (placement.copies() == 1) return fmt::format("the {} directions", placement.directions());
  return fmt::format("the {} replicas of {} copies (each has {} directions)", placement.replicas(), placement.copies(),
                     placement.directions());
}

/// A number of gradient sums, of which each of `groups` has as many. One sum of a single copy with two directions means one for each.
int sums_of_each(const char* key, std::int64_t sums, int groups, const Mesh& mesh, const runtime::Placement& placement,
                 const std::string& text) {
  if (placement.copies() == 1 && sums == 1) return 1;
  const int directions = placement.directions();
  const std::int64_t data = fewer_copies(placement.copies(), [&](std::int64_t copies) {
    return groups * copies % placement.copies() == 0 && sums % (groups * copies / placement.copies()) == 0;
  });
  MILLRACE_CHECK(sums % groups == 0, ExitCode::config, plan_component,
                 "{} = {}, expected a multiple of {}; nearest legal: mesh.data = {}{}{}, or {} = {} for a new run", key, sums, text, data,
                 data % mesh.expert == 0 ? "" : " with mesh.expert = 1", data == 1 && directions > 1 ? " with another schedule" : "", key,
                 nearest_multiple(sums, groups));
  return static_cast<int>(sums / groups);
}

/// Where experts are shared, an owner adds the rows of all members of its group to one sum, so that each owner has one.
void check_shared_sums(const PipelinePlan& plan, std::int64_t sums) {
  const int groups = plan.expert_groups(), replicas = plan.replicas();
  if (sums == groups) return;
  std::string nearest;
  for (int expert = 1; expert <= plan.mesh.data && nearest.empty(); ++expert)
    if (plan.mesh.data % expert == 0 && plan.model.experts % expert == 0 &&
        (expert == 1 ? sums % replicas == 0 : sums == replicas / expert))
      nearest = fmt::format("mesh.expert = {}, or ", expert);
  const bool mirror = plan.schedule.placement.directions() > 1;
  fail(ExitCode::config, plan_component,
       "train.expert_accumulators = {}, expected {}: each of the {} owners of an expert (mesh.data / mesh.expert{}) has one gradient sum; "
       "nearest legal: {}train.expert_accumulators = {} for a new run",
       sums, groups, groups, mirror ? ", in each of the schedule's two directions" : "", nearest, groups);
}

/// Gradients of single microbatches are added in the order of their numbers. Several ranks can do that only where each owns a part of the
/// sums, and where they finish the same microbatches of their own at the same places of their lists.
void check_leaves(const PipelinePlan& plan) {
  const auto& placement = plan.schedule.placement;
  MILLRACE_CHECK(
      placement.directions() == 1, ExitCode::config, plan_component,
      "train.leaf = microbatch with schedule {}, expected part or another schedule: its two directions finish their microbatches "
      "in different orders",
      plan.schedule.name);
  MILLRACE_CHECK(placement.replicas() == 1 || plan.divides_sums(), ExitCode::config, plan_component,
                 "train.leaf = microbatch with mesh.shard = {}, expected gradients or parameters: {} add each microbatch's gradients in "
                 "order, each what it owns",
                 plan.shard_text(), replicas_text(placement));
}

/// How many sums of gradients each rank has.
void choose_accumulators(PipelinePlan& plan, const runtime::TrainConfig& train) {
  const auto& placement = plan.schedule.placement;
  MILLRACE_CHECK(placement.positions() % placement.directions() == 0, ExitCode::config, plan_component,
                 "schedule {} runs {} replicas on pipeline.ranks = {}, expected an even number of ranks", plan.schedule.name,
                 placement.directions(), placement.positions());
  const auto divides = [&](const std::string& what) {
    MILLRACE_CHECK(plan.schedule.microbatches % placement.replicas() == 0, ExitCode::config, plan_component,
                   "train.microbatches = {}, expected a multiple of {}", plan.schedule.microbatches, what);
  };
  divides(replicas_text(placement));
  plan.leaves = train.leaf == "microbatch";
  if (plan.leaves)
    check_leaves(plan);
  else
    plan.accumulators =
        sums_of_each("train.accumulators", train.accumulators, placement.replicas(), plan.mesh, placement, replicas_text(placement));
  if (!plan.has_experts()) return;
  if (plan.mesh.expert > 1) return check_shared_sums(plan, train.expert_accumulators);
  plan.expert_accumulators = sums_of_each("train.expert_accumulators", train.expert_accumulators, placement.replicas(), plan.mesh,
                                          placement, replicas_text(placement));
}

/// The copies and what they share, checked against the model.
Mesh mesh_of(const PlanRequest& request) {
  const Mesh mesh{static_cast<int>(request.mesh.copies()),
                  static_cast<int>(request.mesh.expert),
                  request.mesh.capacity,
                  request.mesh.shard != "none",
                  request.mesh.shard == "gradients" || (request.mesh.shard == "parameters" && request.train.leaf == "microbatch"),
                  request.mesh.shard == "parameters",
                  static_cast<int>(request.mesh.weight_slots),
                  request.mesh.window};
  MILLRACE_CHECK(mesh.data >= 1 && mesh.expert >= 1 && mesh.data % mesh.expert == 0, ExitCode::config, plan_component,
                 "mesh.expert = {}, expected a divisor of mesh.data = {}", mesh.expert, mesh.data);
  MILLRACE_CHECK(mesh.expert == 1 || request.model.experts > 0, ExitCode::config, plan_component,
                 "mesh.expert = {}, but the model has no experts, expected 1", mesh.expert);
  MILLRACE_CHECK(mesh.expert == 1 || request.model.experts % mesh.expert == 0, ExitCode::config, plan_component,
                 "mesh.expert = {}, expected a divisor of model.experts = {}", mesh.expert, request.model.experts);
  MILLRACE_CHECK(request.train.microbatches % mesh.data == 0, ExitCode::config, plan_component,
                 "train.microbatches = {}, expected a multiple of the {} copies (mesh.data)", request.train.microbatches, mesh.data);
  return mesh;
}

/// pipeline.plan: a user's table, which must match the ranks, stages and microbatches of the run.
runtime::Schedule planned_schedule(const PlanRequest& request) {
  const auto& path = request.pipeline.plan;
  auto schedule = runtime::parse_table(runtime::read_text_file(path, std::uint64_t{64} << 20, ExitCode::config), path);
  const auto check = [&](const char* key, std::int64_t expected, std::int64_t found) {
    MILLRACE_CHECK(expected == found, ExitCode::config, "actors.plan", "{} is a table of {} = {}, the run has {}", path, key, found,
                   expected);
  };
  check("pipeline.ranks", request.pipeline.ranks, schedule.placement.ranks());
  check("pipeline.ranks x pipeline.chunks", request.pipeline.ranks * request.pipeline.chunks, schedule.placement.model_stages());
  check("train.microbatches / mesh.data", request.train.microbatches / request.mesh.copies(), schedule.microbatches);
  MILLRACE_CHECK(!schedule.forward_only(), ExitCode::config, "actors.plan",
                 "{} is a table without backwards, expected forwards and backwards", path);
  return schedule;
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : ",") + word;
  return text;
}

std::vector<runtime::RematerializationPolicy> policies_of(const runtime::RematerializeConfig& config, const layers::ModelConfig& model,
                                                          std::size_t stages) {
  const auto labels = layers::known_labels(model);
  if (config.stages.empty()) return {stages, runtime::RematerializationPolicy::parse(join(config.policy), labels)};
  MILLRACE_CHECK(config.stages.size() == stages, ExitCode::config, "actors.plan",
                 "rematerialize.stages has {}, the pipeline {}, expected one per stage", counted(config.stages.size(), "policy"),
                 counted(stages, "stage"));
  std::vector<runtime::RematerializationPolicy> policies;
  for (auto policy : config.stages) {
    std::ranges::replace(policy, '+', ',');
    policies.push_back(runtime::RematerializationPolicy::parse(policy, labels));
  }
  return policies;
}

/// The bytes of each edge, from the ports of the stages that it connects.
std::vector<std::size_t> bytes_of_edges(const PipelinePlan& plan) {
  std::vector<std::size_t> bytes;
  for (const auto& edge : plan.edges) {
    const bool activation = edge.kind == runtime::BoundaryKind::activation;
    const auto& after = plan.layout.at((activation ? edge.consumer : edge.producer).index());
    const auto ports = layers::boundary_types(plan.model, after.first_layer, plan.stage_options());
    bytes.push_back((activation ? runtime::activation_slot(ports) : runtime::gradient_slot(ports)).bytes);
  }
  return bytes;
}

/// What each replica owns of a weight that is divided by itself, by member of its group.
std::vector<runtime::ElementRange> owned_parts(const PipelinePlan& plan, const layers::ParameterSpec& spec) {
  const auto matrices = plan.matrices.matrices(spec.name, runtime::whole_shape(spec.shape, spec.experts), spec.stored);
  const runtime::DividedTensor tensor{spec.shape.elements(),
                                      runtime::division_unit(spec.shape, spec.experts.present(), matrices, plan.optimizer.get()),
                                      plan.is_trained(spec) || plan.divides_masters()};
  std::vector<std::int64_t> loads(static_cast<std::size_t>(plan.replicas()), 0);
  return runtime::divide(std::span(&tensor, 1), loads).front();
}

/// What a run whose replicas divide their update needs: CPUs, and not too many sums that each sends by itself.
void check_division(const PipelinePlan& plan) {
  if (!plan.divides_update()) return;
  MILLRACE_CHECK(plan.device == kernels::DeviceKind::cpu, ExitCode::config, plan_component,
                 "mesh.shard = {} with device = {}, expected none: replicas divide their update on CPUs alone", plan.shard_text(),
                 kernels::to_string(kernels::Device{plan.device, 0}));
  MILLRACE_CHECK(!plan.divides_masters() || plan.schedule.placement.directions() == 1, ExitCode::config, plan_component,
                 "mesh.shard = parameters with schedule {}, expected optimizer or another schedule: its two directions use their stages in "
                 "different orders, and would gather them so",
                 plan.schedule.name);
  constexpr std::size_t most = cluster::Exchanges::max_outstanding / runtime::reduction_steps_ahead;
  for (const bool experts : {false, true}) {
    if (experts ? !plan.has_experts() : plan.leaves) continue;
    const int copies = experts ? plan.expert_groups() : plan.replicas(), parts = experts ? plan.expert_parts() : plan.parts();
    const std::size_t sums = runtime::divide_sum_tree(parts, copies).sums.front().size();
    MILLRACE_CHECK(sums <= most, ExitCode::config, plan_component,
                   "mesh.shard = {} with {} replicas and {} = {}: each has {} sums to send, expected {} at most; with a number of copies "
                   "that is a power of two it is one",
                   plan.shard_text(), copies, experts ? "train.expert_accumulators" : "train.accumulators", parts, sums, most);
  }
}

/// QK-clip needs latent attention, whose scores are all of what a query sees.
void check_qk_clip(const PipelinePlan& plan, const runtime::TrainConfig& train) {
  if (train.qk_clip == 0) return;
  const auto has_scores = [](const auto& spec) { return !spec.scores.scope.empty(); };
  MILLRACE_CHECK(std::ranges::any_of(plan.parameters, has_scores), ExitCode::config, "actors.plan",
                 "train.qk_clip = {}, but {} has no latent attention, expected 0 or a model of DeepSeek's kind", train.qk_clip,
                 layers::family_title(plan.model));
  MILLRACE_CHECK(
      plan.model.index_topk == 0 || train.sequence <= plan.model.index_topk, ExitCode::config, "actors.plan",
      "train.qk_clip = {} with an indexer that chooses {} of {} keys, expected 0: only the scores of attention to all keys are observed",
      train.qk_clip, plan.model.index_topk, train.sequence);
  MILLRACE_CHECK(plan.model.attn_logit_softcapping == 0, ExitCode::config, "actors.plan",
                 "train.qk_clip = {} with capped scores (attn_logit_softcapping = {}), expected one of them", train.qk_clip,
                 plan.model.attn_logit_softcapping);
}

/// Every group selects parameters that no group before it does.
void check_groups(const PipelinePlan& plan, const runtime::TrainConfig& train) {
  for (std::size_t group = 0; group < plan.groups.size(); ++group) {
    const auto belongs = [&](const auto& spec) { return plan.groups.group_of(spec.name) == group; };
    MILLRACE_CHECK(std::ranges::any_of(plan.parameters, belongs), ExitCode::config, "actors.plan",
                   "train.groups has \"{}\", which finds no parameter{}, expected parts of names with / for their dots, such as {}",
                   train.groups[group], group > 0 ? " that an earlier group does not have" : "",
                   runtime::parameter_path(plan.parameters.front().name));
  }
}

/// pipeline.warmup, or its default where neighbouring actions are woven: a pair waits for what both of its halves need, so that a rank and
/// the next one would take turns unless the first is two pairs ahead. -1: that of the schedule.
std::int64_t warmup_of(const PlanRequest& request) {
  const auto& pipeline = request.pipeline;
  const bool woven = request.mesh.expert > 1 && pipeline.weave == "neighbours";
  return pipeline.warmup < 0 && woven && pipeline.schedule == "1f1b" && pipeline.ranks > 1 ? 2 * pipeline.ranks - 1 : pipeline.warmup;
}

/// The schedule that pipeline.schedule names, of one copy, for a step of this many microbatches of all copies.
runtime::Schedule generated_schedule(const PlanRequest& request, std::int64_t microbatches) {
  const auto& pipeline = request.pipeline;
  runtime::ScheduleRequest schedule;
  schedule.name = pipeline.schedule;
  schedule.ranks = static_cast<int>(pipeline.ranks);
  schedule.chunks = static_cast<int>(pipeline.chunks);
  schedule.microbatches = static_cast<int>(microbatches / request.mesh.copies());
  if (const std::int64_t warmup = warmup_of(request); warmup >= 0)
    schedule.warmup = runtime::one_f_one_b_warmup(schedule.ranks, static_cast<int>(warmup));
  schedule.group = static_cast<int>(pipeline.group);
  try {
    return runtime::make_schedule(schedule);
  } catch (const Error& error) {
    if (request.mesh.copies() == 1) throw;
    throw Error(error.code(), fmt::format("{} (of each of the {} copies: mesh.data)", error.what(), request.mesh.copies()));
  }
}

bool splits_backward(const runtime::Schedule& schedule) {
  const auto splits = [](const auto& action) { return action.kind == runtime::ActionKind::input_gradient; };
  return std::ranges::any_of(schedule.ranks, [&](const auto& rank) { return std::ranges::any_of(rank, splits); });
}

/// The schedules of the steps before the batch has grown, whose slots and depths are added to the plan's ledger.
void add_smaller_schedules(PipelinePlan& plan, const PlanRequest& request) {
  const auto sizes = plan.ramp.sizes();
  MILLRACE_CHECK(sizes.size() == 1 || request.pipeline.plan.empty(), ExitCode::config, "actors.plan",
                 "train.ramp_microbatches = {} with pipeline.plan = {}, whose steps all have the same microbatches; expected one of them",
                 request.train.ramp_microbatches, request.pipeline.plan);
  for (const std::int64_t microbatches : sizes) {
    if (microbatches == plan.schedule.microbatches) continue;
    const std::int64_t steps = request.train.accumulation_steps;
    const int parts = plan.parts(), expert_parts = plan.has_experts() ? plan.expert_parts() : 1;
    MILLRACE_CHECK(microbatches % std::lcm(parts, expert_parts) == 0 && microbatches % steps == 0 && microbatches % plan.replicas() == 0,
                   ExitCode::config, plan_component,
                   "a step of {} microbatches while the batch grows, expected a multiple of train.accumulators = {}, of "
                   "train.expert_accumulators = {}, of train.accumulation_steps = {} and of the {} copies",
                   microbatches, parts, expert_parts, steps, plan.replicas());
    const auto one = runtime::with_one_kind_of_backward(generated_schedule(request, microbatches));
    auto schedule = runtime::replicate(one, plan.mesh.data);
    MILLRACE_CHECK(
        schedule.placement.stages() == plan.schedule.placement.stages() && splits_backward(schedule) == splits_backward(plan.schedule),
        ExitCode::config, "actors.plan",
        "schedule {} has another kind of backward or other stages for {} microbatches than for {}, expected the same: a stage has one "
        "kind of programs",
        plan.schedule.name, microbatches, plan.schedule.microbatches);
    plan.ledger = runtime::larger_of(plan.ledger, runtime::replicate(runtime::make_ledger(one), one.placement, plan.mesh.data));
    plan.smaller_schedules.push_back(std::move(schedule));
  }
}

/// Rejects more stages than the model can fill, and parts that do not divide.
void check_sizes(const PlanRequest& request) {
  const auto& pipeline = request.pipeline;
  const auto& train = request.train;
  const std::int64_t stages = pipeline.ranks * pipeline.chunks;
  const layers::ChainLength chain = layers::chain_of(request.model);
  MILLRACE_CHECK(!pipeline.layout.empty() || stages <= layers::most_stages(chain), ExitCode::config, "actors.plan",
                 "pipeline.ranks = {} and pipeline.chunks = {} make {} stages; a model of {} layers{} fills {} at most (embedding and head "
                 "may be stages of their own)",
                 pipeline.ranks, pipeline.chunks, stages, chain.layers,
                 chain.modules > 0 ? fmt::format(" and {} modules of multi-token prediction", chain.modules) : "",
                 layers::most_stages(chain));
  MILLRACE_CHECK(
      train.accumulation_steps == 1 || train.numerics == "maxtext", ExitCode::config, "actors.plan",
      "train.accumulation_steps = {} with train.numerics = {}, expected 1: the microbatches of a step are accumulated anyway, and "
      "only MaxText counts them in its own way",
      train.accumulation_steps, train.numerics);
  MILLRACE_CHECK(train.microbatches % train.accumulation_steps == 0, ExitCode::config, "actors.plan",
                 "train.accumulation_steps = {} does not divide train.microbatches = {}", train.accumulation_steps, train.microbatches);
  MILLRACE_CHECK(train.accumulation_steps == 1 || chain.modules == 0, ExitCode::config, "actors.plan",
                 "train.accumulation_steps = {} with model.mtp_layers = {}, expected 1: the targets of modules are counted by the step",
                 train.accumulation_steps, chain.modules);
  MILLRACE_CHECK(train.accumulators <= train.microbatches && train.microbatches % train.accumulators == 0, ExitCode::config, "actors.plan",
                 "train.accumulators = {} does not divide train.microbatches = {}", train.accumulators, train.microbatches);
}

}  // namespace

std::string copies_text(const runtime::MeshConfig& mesh, bool leaves) {
  if (mesh.copies() == 1) return {};
  const std::string sums = leaves ? "gradient sums and update" : "the update";
  const std::string divided = mesh.shard == "parameters" ? "parameters" + (leaves ? ", " + sums : " and " + sums) : sums;
  std::string shared = mesh.expert > 1 ? fmt::format("{} share their experts", mesh.expert) : "";
  if (mesh.shard != "none") shared += (shared.empty() ? "they divide " : ", all divide ") + divided;
  if (!shared.empty()) shared = fmt::format(" ({})", shared);
  return fmt::format("{} copies{} of ", mesh.copies(), shared);
}

void set_layout(PipelinePlan& plan, const std::vector<layers::StageLayout>& of_one) {
  plan.tied = tied_weights(plan.parameters, plan.model, of_one, plan.losses);
  SumMessagesInput sums{plan.parameters,
                        plan.model,
                        of_one,
                        plan.losses,
                        plan.schedule.placement,
                        plan.parts(),
                        plan.expert_parts(),
                        plan.expert_groups(),
                        static_cast<int>(plan.edges.size())};
  if (plan.divides_update()) sums.owned = [&plan](const layers::ParameterSpec& spec) { return owned_parts(plan, spec); };
  plan.sums = sum_messages(sums);
  plan.layout.clear();
  for (int replica = 0; replica < plan.replicas(); ++replica) plan.layout.insert(plan.layout.end(), of_one.begin(), of_one.end());
}

PipelinePlan make_plan(const PlanRequest& request) {
  check_sizes(request);
  const auto& pipeline = request.pipeline;
  if (pipeline.weave == "auto") return choose_weave(request, [](const PlanRequest& one) { return make_plan(one); });
  if (!pipeline.plan.empty()) return make_plan(request, planned_schedule(request));
  return make_plan(request, generated_schedule(request, request.train.microbatches));
}

const runtime::Schedule& PipelinePlan::schedule_of(std::int64_t microbatches) const {
  if (microbatches == schedule.microbatches) return schedule;
  const auto found = std::ranges::find(smaller_schedules, microbatches, [](const auto& each) { return std::int64_t{each.microbatches}; });
  MILLRACE_CHECK(found != smaller_schedules.end(), ExitCode::internal, "actors.plan", "no step of {} microbatches", microbatches);
  return *found;
}

PipelinePlan make_plan(const PlanRequest& request, const runtime::Schedule& schedule) {
  check_sizes(request);
  if (request.pipeline.weave == "auto") return choose_weave(request, [&](const PlanRequest& one) { return make_plan(one, schedule); });
  PipelinePlan plan;
  const auto& pipeline = request.pipeline;
  const auto& train = request.train;
  plan.model = request.model;
  const std::int64_t stages = pipeline.ranks * pipeline.chunks;
  const layers::ChainLength chain = layers::chain_of(plan.model);
  plan.layout = pipeline.layout.empty() ? layers::uniform_layout(chain, stages) : layers::parse_layout(pipeline.layout, chain, stages);
  plan.mesh = mesh_of(request);
  plan.parameters = layers::model_parameters(plan.model, loss_weights(train));
  const auto one = runtime::with_one_kind_of_backward(schedule);  // a stage's programs are planned for one kind of backward
  plan.schedule = runtime::replicate(one, plan.mesh.data);
  choose_accumulators(plan, train);
  plan.ledger = runtime::replicate(runtime::make_ledger(one), one.placement, plan.mesh.data);
  plan.ramp = train.ramp_microbatches > 0 ? runtime::BatchRamp(train) : runtime::BatchRamp(plan.schedule.microbatches);
  add_smaller_schedules(plan, request);
  plan.edges = runtime::edges_of(plan.schedule.placement);
  plan.split_backward = splits_backward(plan.schedule);

  MILLRACE_CHECK(
      train.routed_bias_update_rate == 0 || std::ranges::any_of(plan.parameters, [](const auto& spec) { return !spec.router.empty(); }),
      ExitCode::config, "actors.plan", "train.routed_bias_update_rate = {}, but no router of the model has a bias",
      train.routed_bias_update_rate);
  check_qk_clip(plan, train);
  plan.rematerialize = policies_of(request.rematerialize, plan.model, static_cast<std::size_t>(stages));
  plan.compute = runtime::compute_dtype(train);
  plan.accumulation_steps = train.accumulation_steps;
  plan.device = request.device;
  plan.one_segment = request.one_segment;
  plan.internal_metrics = request.internal_metrics;
  plan.rows = train.batch;
  plan.sequence = train.sequence;
  plan.losses = loss_weights(train);
  plan.optimizer = runtime::make_optimizer(train);
  plan.offload_states = train.offload_states;
  plan.groups = runtime::ParameterGroups(train);
  check_groups(plan, train);
  plan.trainable = runtime::NamePatterns("train.trainable", train.trainable);
  MILLRACE_CHECK(std::ranges::any_of(plan.parameters, [&](const auto& spec) { return plan.is_trained(spec); }), ExitCode::config,
                 "actors.plan",
                 "train.trainable = [\"{}\"] finds no parameter that can be trained, expected parts of names with / for "
                 "their dots, such as {}",
                 fmt::join(train.trainable, "\", \""), runtime::parameter_path(plan.parameters.front().name));
  plan.matrices = runtime::MatrixRule(train, plan.model.numerics == "maxtext");
  check_division(plan);
  MILLRACE_CHECK(
      !plan.divides_sums() || plan.leaves, ExitCode::config, plan_component,
      "mesh.shard = gradients with train.leaf = part, expected microbatch: only finished gradients of microbatches can be divided");
  set_layout(plan, std::vector(plan.layout));
  plan.edge_bytes = bytes_of_edges(plan);
  choose_pairs(plan, pipeline.weave);
  return plan;
}

std::vector<cluster::ChannelSpec> PipelinePlan::channels() const {
  std::vector<cluster::ChannelSpec> channels;
  for (const auto& edge : edges) {
    cluster::ChannelSpec spec;
    spec.id = edge.id.value;
    spec.from_rank = edge.producer_rank.value;
    spec.to_rank = edge.consumer_rank.value;
    spec.kind = edge.kind == runtime::BoundaryKind::activation ? cluster::ChannelKind::activation : cluster::ChannelKind::gradient;
    spec.depth = ledger.depths.at(edge.id.index());
    spec.bytes = boundary_bytes(edge.id);
    channels.push_back(spec);
  }
  for (const auto& message : sums) {
    cluster::ChannelSpec spec;
    spec.id = message.channel;
    spec.from_rank = message.from.value;
    spec.to_rank = message.to.value;
    spec.kind = cluster::ChannelKind::sums;
    spec.depth = 1;
    spec.bytes = message.bytes();
    channels.push_back(spec);
  }
  return channels;
}

std::string PipelinePlan::layout_text() const {
  return layers::print_layout({layout.begin(), layout.begin() + schedule.placement.model_stages()});
}

std::vector<int> PipelinePlan::head_ranks() const {
  std::vector<int> ranks;
  for (int stage = 0; stage < stages(); ++stage)
    if (is_last(runtime::StageId(stage))) ranks.push_back(schedule.placement.rank_of(runtime::StageId(stage)).value);
  return ranks;
}

bool PipelinePlan::held_by_several(std::string_view parameter) const {
  if (replicas() > 1) return true;
  const auto has = [&](const SumMessage& message) {
    return std::ranges::find(message.parts, parameter, &SumPart::tensor) != message.parts.end();
  };
  return std::ranges::any_of(sums, has);
}

bool PipelinePlan::has_experts() const {
  return std::ranges::any_of(parameters, [](const auto& spec) { return spec.experts.present(); });
}

ReplicaGroup PipelinePlan::replica_group(runtime::StageId stage, bool experts) const {
  const auto& placement = schedule.placement;
  const int copies_of_experts = expert_groups(), replica = placement.replica_of(stage);
  std::vector<std::pair<runtime::RankId, int>> members;  // each with its copy
  for (int other = 0; other < replicas(); ++other) {
    if (experts && other / copies_of_experts != replica / copies_of_experts) continue;
    const runtime::StageId same(other * placement.model_stages() + placement.model_stage(stage));
    members.emplace_back(placement.rank_of(same), experts ? other % copies_of_experts : other);
  }
  std::ranges::sort(members);
  ReplicaGroup group{members.front().first.value + (experts ? ranks() : 0), experts, {}, {}};
  for (const auto& [rank, copy] : members) {
    group.ranks.push_back(rank);
    group.copies.push_back(copy);
  }
  return group;
}

std::vector<ReplicaGroup> PipelinePlan::replica_groups(runtime::StageId stage) const {
  std::vector<ReplicaGroup> all{replica_group(stage, false)};
  if (has_experts()) all.push_back(replica_group(stage, true));
  std::erase_if(all, [](const ReplicaGroup& group) { return group.ranks.size() == 1; });
  return all;
}

ExpertRanks PipelinePlan::expert_group(runtime::StageId stage) const {
  const auto& placement = schedule.placement;
  const int copies_of_experts = expert_groups(), replica = placement.replica_of(stage);
  ExpertRanks group{{mesh.expert, replica / copies_of_experts, mesh.capacity}, {}};
  for (int member = 0; member < mesh.expert; ++member) {
    const int other = member * copies_of_experts + replica % copies_of_experts;
    group.ranks.push_back(placement.rank_of(runtime::StageId(other * placement.model_stages() + placement.model_stage(stage))));
  }
  return group;
}

layers::StageOptions PipelinePlan::stage_options() const {
  layers::StageOptions options;
  options.compute = compute;
  options.rows = rows;
  options.sequence = sequence;
  options.losses = losses;
  options.one_segment = one_segment;
  options.internal_metrics = internal_metrics;
  return options;
}

runtime::ProgramSet PipelinePlan::programs(runtime::StageId stage, layers::Output output, std::int64_t other_rows) const {
  layers::StageOptions options = stage_options();
  if (other_rows > 0) options.rows = other_rows;
  options.output = output;
  options.experts = expert_group(stage).group;
  return runtime::differentiate(layers::build_stage(model, layout.at(stage.index()), options),
                                rematerialize.at(stage.index() % rematerialize.size()), {device, 0});
}

double PipelinePlan::model_flops(std::int64_t microbatches) const {
  double weights = 0;
  for (const auto& parameter : parameters)
    if (parameter.shape.rank() >= 2) weights += parameter.active * static_cast<double>(parameter.shape.elements());
  weights += static_cast<double>(model.mtp_layers * model.vocab_size * model.hidden_size);               // modules use the head as well
  if (!model.tie_word_embeddings) weights -= static_cast<double>(model.vocab_size * model.hidden_size);  // the embedding is a lookup
  weights -= static_cast<double>(model.per_layer_vocab_size) * static_cast<double>(model.layers * model.per_layer_input_size);  // as well
  const double tokens = static_cast<double>(microbatches * rows * sequence);
  // The scores' products are as wide as keys, those of the weighted sum as values.
  const bool latent = model.kv_lora_rank > 0;
  const std::int64_t widths = latent ? model.qk_nope_head_dim + model.qk_rope_head_dim + model.v_head_dim : 2 * model.head_dim;
  const auto of_kind = [&](layers::LayerKind kind) { return static_cast<std::int64_t>(std::ranges::count(model.layer_kinds, kind)); };
  const std::int64_t linear = of_kind(layers::LayerKind::linear);
  const std::int64_t wide = model.global_head_dim == 0 ? 0 : model.layer_kinds.empty() ? model.layers : of_kind(layers::LayerKind::full);
  const std::int64_t all_widths = (model.layers + model.mtp_layers - linear - wide) * widths + wide * 2 * model.global_head_dim;
  const double attention = (model.causal ? 3.0 : 6.0) * static_cast<double>(sequence * model.heads * all_widths);
  // A token reads a state of the delta rule twice and writes it once: three products of a vector and a matrix forward, twice that backward.
  const double state = static_cast<double>(model.linear_value_heads * model.linear_key_head_dim * model.linear_value_head_dim);
  return tokens * (6.0 * weights + attention + 18.0 * static_cast<double>(linear) * state);
}

std::string PipelinePlan::text() const {
  std::string text =
      fmt::format("layout {}\nschedule {}\nmesh {} {} {} {} {} {}\nsums {} {} leaves {}\n", layout_text(), schedule.name, mesh.data,
                  mesh.expert, mesh.capacity, shard_text(), mesh.weight_slots, mesh.window, parts(), expert_parts(), leaves);
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    text += fmt::format("rank {}:", rank);
    for (const auto& action : schedule.ranks[rank]) text += fmt::format(" {}", action);
    text += '\n';
  }
  for (const auto& smaller : smaller_schedules) text += fmt::format("also steps of {} microbatches\n", smaller.microbatches);
  for (const auto& channel : channels())
    text += fmt::format("channel {} {} {} {} x {}\n", channel.id, channel.from_rank, channel.to_rank, channel.depth, channel.bytes);
  return text;
}

}  // namespace millrace::actors
