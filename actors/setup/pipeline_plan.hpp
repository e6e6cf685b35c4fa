#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "actors/setup/sum_messages.hpp"
#include "cluster/links/link.hpp"
#include "layers/models/model.hpp"
#include "layers/partition.hpp"
#include "runtime/batch_ramp.hpp"
#include "runtime/data/mtp_targets.hpp"
#include "runtime/mesh_config.hpp"
#include "runtime/optimizers/matrix_rule.hpp"
#include "runtime/optimizers/optimizer.hpp"
#include "runtime/optimizers/parameter_groups.hpp"
#include "runtime/passes/rematerialize.hpp"
#include "runtime/program/program.hpp"
#include "runtime/schedule/ledger.hpp"
#include "runtime/schedule/schedule.hpp"
#include "runtime/schedule/stage_shape.hpp"
#include "runtime/train_config.hpp"

namespace millrace::actors {

/// The input of a plan: plain copies of parts of the run description.
struct PlanRequest {
  layers::ModelConfig model;
  runtime::TrainConfig train;
  runtime::PipelineConfig pipeline;
  runtime::RematerializeConfig rematerialize;
  kernels::DeviceKind device = kernels::DeviceKind::cpu;  // the device that the programs are made for
  bool one_segment = false;                               // every row of a microbatch is one segment
  bool internal_metrics = false;                          // observe statistics of every layer's output
  runtime::MeshConfig mesh = {};
};

/// "2 copies of " or, where something is shared, "4 copies (2 share their experts, all divide the update) of "; empty for one copy.
/// `leaves`: the gradients of each microbatch are formed by themselves.
[[nodiscard]] std::string copies_text(const runtime::MeshConfig& mesh, bool leaves);

/// How a job is cut besides its pipeline.
struct Mesh {
  int data = 1;         // copies of the pipeline; copy d has the ranks d·P … d·P + P − 1
  int expert = 1;       // ranks that share the experts of a layer
  double capacity = 0;  // of each for rows of others (runtime::ExpertGroup)
  /// The ranks that hold the same weights divide their update: each has the optimizer's states of a part (mesh.shard = optimizer); and the
  /// gradient sums: each keeps those of its part alone (mesh.shard = gradients); and the parameters (mesh.shard = parameters).
  bool divides_update = false, divides_sums = false, divides_masters = false;
  int weight_slots = 0;    // with divided parameters: a rank has room for those of so many stages at a time
  std::size_t window = 0;  // bytes of gradient sums that a rank gets from each other one at a time
};

/// The ranks of one pipeline position that share the experts of its layers.
struct ExpertRanks {
  runtime::ExpertGroup group;
  std::vector<runtime::RankId> ranks;  // by member
};

/// The ranks that hold the same weights of a stage: its weights of experts, or all others.
struct ReplicaGroup {
  int id = 0;  // unique in the job; stages of one rank may have the same group
  bool experts = false;
  std::vector<runtime::RankId> ranks;  // ascending
  std::vector<int> copies;             // by member: which of the copies it is whose parts are added (GlobalOrder)

  /// The place of a member.
  [[nodiscard]] int place_of(runtime::RankId rank) const { return static_cast<int>(std::ranges::find(ranks, rank) - ranks.begin()); }
};

/// The weights of [train] in the form that programs are built with.
[[nodiscard]] inline runtime::LossWeights loss_weights(const runtime::TrainConfig& train) {
  return {.output = train.loss,
          .z_loss = train.z_loss,
          .balance_loss = train.balance_loss,
          .router_z_loss = train.router_z_loss,
          .indexer_loss = train.indexer_loss,
          .indexer_warmup = train.indexer_warmup,
          .mtp_loss = train.mtp_loss,
          .mtp_eval_module = static_cast<int>(train.mtp_eval_target_module),
          .qk_clip = train.qk_clip > 0};
}

/// The modules of multi-token prediction whose targets a model's batches have.
[[nodiscard]] inline runtime::MtpModules mtp_modules(const layers::ModelConfig& model) {
  return {1, model.mtp_layers, model.mtp_layers > 0 && layers::resolve(model).shifts_over_documents};
}

/// Which rank does what, decided before anything is allocated: the same in every process of a job, which the run hash verifies.
struct PipelinePlan {
  layers::ModelConfig model;
  Mesh mesh;
  std::vector<layers::StageLayout> layout;                      // by stage; further replicas repeat the first
  runtime::Schedule schedule;                                   // of a training step, the largest where the batch grows
  runtime::BatchRamp ramp;                                      // the number of microbatches of each step
  std::vector<runtime::Schedule> smaller_schedules;             // of the steps before the batch has grown, by number of microbatches
  runtime::Ledger ledger;                                       // slots and depths, of all of them
  std::vector<runtime::Edge> edges;                             // edges[i].id == i; the channel of edge i has id i
  std::vector<std::size_t> edge_bytes;                          // by edge
  std::vector<runtime::StageShape> rehearsed_shapes;            // by stage: the segments of a rehearsal; empty: those of the programs
  std::vector<SumMessage> sums;                                 // of gradients, after a step's list
  std::vector<std::string> tied;                                // weights that several stages use
  std::vector<layers::ParameterSpec> parameters;                // of the whole model, in model order
  std::vector<runtime::RematerializationPolicy> rematerialize;  // by stage, of one replica
  kernels::DType compute = kernels::DType::f32;
  kernels::DeviceKind device = kernels::DeviceKind::cpu;
  bool one_segment = false;
  bool internal_metrics = false;
  std::int64_t rows = 1, sequence = 1;  // of a microbatch
  runtime::LossWeights losses;
  std::int64_t accumulation_steps = 1;
  int accumulators = 1;         // parts of a replica's microbatches, with a gradient sum each
  int expert_accumulators = 1;  // the same for the weights of experts; 1 where they are shared
  bool split_backward = false;  // the table has I and W
  bool leaves = false;          // the gradients of each microbatch are formed by themselves (train.leaf = microbatch)
  std::shared_ptr<const runtime::Optimizer> optimizer;
  bool offload_states = false;      // its states are in the host's memory
  runtime::ParameterGroups groups;  // how it updates each parameter
  runtime::MatrixRule matrices;     // which it treats as matrices
  runtime::NamePatterns trainable;  // the only ones that it updates, if not empty

  [[nodiscard]] int ranks() const { return schedule.placement.ranks(); }
  [[nodiscard]] int stages() const { return schedule.placement.stages(); }
  /// The schedule of a step with this many microbatches. Throws Error(internal) if no step has as many.
  [[nodiscard]] const runtime::Schedule& schedule_of(std::int64_t microbatches) const;
  /// Whether the optimizer updates the parameter.
  [[nodiscard]] bool is_trained(const layers::ParameterSpec& parameter) const {
    return parameter.trained && (trainable.empty() || trainable.match(parameter.name));
  }
  /// The layout string of one replica.
  [[nodiscard]] std::string layout_text() const;
  [[nodiscard]] int replicas() const { return schedule.placement.replicas(); }
  /// The number of parts of the step's microbatches with a gradient sum each: the train.accumulators of the one-rank run with the same
  /// bits. Gradients of single microbatches make one sum, whoever adds them.
  [[nodiscard]] int parts() const { return leaves ? 1 : replicas() * accumulators; }
  /// Whether the model has weights of experts.
  [[nodiscard]] bool has_experts() const;
  /// The groups of replicas that have all experts among them, so that each expert is there as often. Replica c is member c / groups of
  /// group c mod groups.
  [[nodiscard]] int expert_groups() const { return replicas() / mesh.expert; }
  /// The same as parts() for the weights of experts: the train.expert_accumulators of the one-rank run with the same bits.
  [[nodiscard]] int expert_parts() const { return expert_groups() * expert_accumulators; }
  /// The index of the gradient sums that a microbatch adds to, on each rank that has it; of weights of experts on each of their owners.
  [[nodiscard]] int accumulator_set(std::int64_t microbatch) const { return runtime::GlobalOrder(replicas()).set(microbatch, parts()); }
  [[nodiscard]] int expert_accumulator_set(std::int64_t microbatch) const {
    return runtime::GlobalOrder(expert_groups()).set(microbatch, expert_parts());
  }
  /// Whether another stage owns the weight: the same of the first replica or, of a weight of experts, of the first group.
  [[nodiscard]] bool is_copy(const layers::ParameterSpec& parameter, runtime::StageId stage) const {
    const int replica = schedule.placement.replica_of(stage);
    return (parameter.experts.present() ? replica % expert_groups() : replica) > 0;
  }
  /// The ranks that share the experts of this stage with its rank, and that rank's place among them.
  [[nodiscard]] ExpertRanks expert_group(runtime::StageId stage) const;
  /// The same for a rank whose stages all belong to one replica; with two directions, for its first stage.
  [[nodiscard]] ExpertRanks expert_group(runtime::RankId rank) const { return expert_group(schedule.placement.stages_of(rank).front()); }
  /// The value of mesh.shard.
  [[nodiscard]] const char* shard_text() const {
    return mesh.divides_masters ? "parameters" : mesh.divides_sums ? "gradients" : mesh.divides_update ? "optimizer" : "none";
  }
  /// Whether they also divide the gradient sums.
  [[nodiscard]] bool divides_sums() const { return mesh.divides_sums && replicas() > 1; }
  /// The slots of a rank for gradients of one microbatch: of the next action while replicas add those of the one before. 0: there are none.
  [[nodiscard]] int leaf_slots() const { return !leaves ? 0 : divides_sums() ? 2 : 1; }
  /// Whether they also divide the parameters: each has masters of what it owns, and gathers those of a stage before it uses them.
  [[nodiscard]] bool divides_masters() const { return mesh.divides_masters && replicas() > 1; }
  /// Whether several ranks hold the same weights and divide their update.
  [[nodiscard]] bool divides_update() const { return mesh.divides_update && replicas() > 1; }
  /// The ranks that hold the same weights of the stage as its rank does, that rank alone included.
  [[nodiscard]] ReplicaGroup replica_group(runtime::StageId stage, bool experts) const;
  /// The groups of several ranks: that of the dense weights, then that of the weights of experts if the model has some.
  [[nodiscard]] std::vector<ReplicaGroup> replica_groups(runtime::StageId stage) const;
  [[nodiscard]] std::string copies_text() const {
    return actors::copies_text({mesh.data, mesh.expert, mesh.capacity, shard_text()}, leaves);
  }
  /// "rank 5", or "rank 5 (copy 1, position 1)" where there are copies.
  [[nodiscard]] std::string rank_text(runtime::RankId rank) const { return schedule.placement.rank_text(rank); }
  [[nodiscard]] bool is_first(runtime::StageId stage) const { return !schedule.placement.previous(stage); }
  [[nodiscard]] bool is_last(runtime::StageId stage) const { return !schedule.placement.next(stage); }
  /// The rank of the first replica's head.
  [[nodiscard]] runtime::RankId head_rank() const {
    return schedule.placement.rank_of(runtime::StageId(schedule.placement.model_stages() - 1));
  }
  [[nodiscard]] runtime::RankId embedding_rank() const { return schedule.placement.rank_of(runtime::StageId(0)); }
  /// The head's rank of each replica, in the order in which replicas are dealt the microbatches.
  [[nodiscard]] std::vector<int> head_ranks() const;
  /// Whether several ranks hold this weight.
  [[nodiscard]] bool held_by_several(std::string_view parameter) const;
  /// Bytes of one boundary of this edge: all its ports, for one microbatch. The activation and the gradient of one boundary differ where
  /// ports have no gradient, and boundaries differ where the streams of their layers do.
  [[nodiscard]] std::size_t boundary_bytes(runtime::EdgeId edge) const { return edge_bytes.at(edge.index()); }
  /// Every channel of the job with its depth and size.
  [[nodiscard]] std::vector<cluster::ChannelSpec> channels() const;
  /// What the stages of the training microbatch are built with; they end in the loss.
  [[nodiscard]] layers::StageOptions stage_options() const;
  /// The derived programs of one stage. rows = 0: those of the training microbatch; Output::logits selects the forward that ends
  /// in logits.
  [[nodiscard]] runtime::ProgramSet programs(runtime::StageId stage, layers::Output output = layers::Output::loss,
                                             std::int64_t rows = 0) const;
  /// Model FLOPs of one training step by the usual count: 6 per weight of a matmul and token, plus attention and the states of linear
  /// attention; recomputation is not counted.
  [[nodiscard]] double model_flops(std::int64_t microbatches) const;
  /// Everything that must agree between processes, as text; its hash is part of the run hash.
  [[nodiscard]] std::string text() const;
};

/// Gives each stage of every replica these layers, those of one replica; and what follows from it: which weights are tied, and what ranks
/// send each other of their gradient sums.
void set_layout(PipelinePlan& plan, const std::vector<layers::StageLayout>& of_one);

/// Throws Error(config) or Error(model) with what does not fit: more stages than layers + 2, a layout that drops a layer, a
/// schedule that does not support these chunks, accumulators that do not divide the microbatches, too many or too few
/// rematerialisation policies for the stages.
[[nodiscard]] PipelinePlan make_plan(const PlanRequest& request);
/// The same for a given schedule of one copy of the pipeline; the request's schedule is ignored.
[[nodiscard]] PipelinePlan make_plan(const PlanRequest& request, const runtime::Schedule& schedule);

/// The number of actions that a rank may issue ahead of the one that computes.
inline constexpr int max_issue_ahead = 2;

}  // namespace millrace::actors
