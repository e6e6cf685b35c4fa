#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/links/link.hpp"
#include "layers/models/model.hpp"
#include "layers/partition.hpp"
#include "runtime/optimizers/decay.hpp"
#include "runtime/optimizers/optimizer.hpp"
#include "runtime/passes/rematerialize.hpp"
#include "runtime/program/program.hpp"
#include "runtime/schedule/ledger.hpp"
#include "runtime/schedule/schedule.hpp"
#include "runtime/train_config.hpp"

namespace millrace::actors {

/// What a plan is made from; plain copies of the run description's parts.
struct PlanRequest {
  layers::ModelConfig model;
  runtime::TrainConfig train;
  runtime::PipelineConfig pipeline;
  runtime::RematerializeConfig rematerialize;
  kernels::DeviceKind device = kernels::DeviceKind::cpu;  // what the programs are made for
  bool one_segment = false;                               // every row of a microbatch is one segment
};

/// Two ranks that hold the same weights, a tied table or all of a replica's: after a step's list each sends the other its gradient sums.
struct SumExchange {
  runtime::RankId first, second;
  int channel = 0;        // first → second; the one after it goes back
  std::size_t bytes = 0;  // of a message: every sum that both hold, each on a boundary of kernels::kAlignment
};

/// Who does what, before anything is allocated: the same on every process of a job, which the run hash proves.
struct PipelinePlan {
  layers::ModelConfig model;
  std::vector<layers::StageLayout> layout;                      // by stage; a second replica repeats the first
  runtime::Schedule schedule;                                   // of a training step
  runtime::Ledger ledger;                                       // slots and depths
  std::vector<runtime::Edge> edges;                             // edges[i].id == i; the channel of edge i has id i
  std::vector<layers::ParameterSpec> parameters;                // of the whole model, in model order
  std::vector<runtime::RematerializationPolicy> rematerialize;  // by stage, of one replica
  kernels::DType compute = kernels::DType::f32;
  kernels::DeviceKind device = kernels::DeviceKind::cpu;
  bool one_segment = false;
  std::int64_t rows = 1, sequence = 1;  // of a microbatch
  double z_loss = 0;
  int accumulators = 1;         // contiguous parts of a replica's microbatches with a gradient sum each
  bool split_backward = false;  // the table has I and W
  std::shared_ptr<const runtime::Optimizer> optimizer;
  runtime::DecayRule decay;  // which parameters the optimizer lets decay

  [[nodiscard]] int ranks() const { return schedule.placement.ranks(); }
  [[nodiscard]] int stages() const { return schedule.placement.stages(); }
  /// The layout string of one replica.
  [[nodiscard]] std::string layout_text() const;
  [[nodiscard]] int replicas() const { return schedule.placement.replicas(); }
  /// Contiguous parts of the step's microbatches with a gradient sum each: the train.accumulators of the one-stage run with the same bits.
  [[nodiscard]] int parts() const { return replicas() * accumulators; }
  [[nodiscard]] bool is_first(runtime::StageId stage) const { return !schedule.placement.previous(stage); }
  [[nodiscard]] bool is_last(runtime::StageId stage) const { return !schedule.placement.next(stage); }
  /// Of the first replica.
  [[nodiscard]] runtime::RankId head_rank() const {
    return schedule.placement.rank_of(runtime::StageId(schedule.placement.model_stages() - 1));
  }
  [[nodiscard]] runtime::RankId embedding_rank() const { return schedule.placement.rank_of(runtime::StageId(0)); }
  /// The head's rank of each replica: as replicas share the microbatches in order, so do the losses that these hold.
  [[nodiscard]] std::vector<int> head_ranks() const;
  /// A tied table whose two uses lie on different ranks: both hold it and exchange accumulators once a step. (Of two replicas, both ends
  /// have both uses.)
  [[nodiscard]] bool replicated_table() const { return model.tie_word_embeddings && replicas() == 1 && head_rank() != embedding_rank(); }
  /// Whether two ranks hold this weight.
  [[nodiscard]] bool held_twice(std::string_view parameter) const {
    return replicas() > 1 || (replicated_table() && parameter == parameters.front().name);
  }
  /// Who exchanges gradient sums with whom; a rank takes part in one exchange at most.
  [[nodiscard]] std::vector<SumExchange> exchanges() const;
  /// Bytes of one boundary tensor: activation or gradient of one microbatch.
  [[nodiscard]] std::size_t boundary_bytes() const;
  /// Every channel of the job with its depth and size.
  [[nodiscard]] std::vector<cluster::ChannelSpec> channels() const;
  /// The programs of one stage, derived. rows 0: the training microbatch; Output::logits gives the forward that ends in logits.
  [[nodiscard]] runtime::ProgramSet programs(runtime::StageId stage, layers::Output output = layers::Output::loss,
                                             std::int64_t rows = 0) const;
  /// Model FLOPs of one training step as people count them: 6 a weight of a matmul and token, and causal attention; recomputation is not
  /// counted.
  [[nodiscard]] double model_flops(std::int64_t microbatches) const;
  /// Everything that must agree between processes, as text; its hash is part of the run hash.
  [[nodiscard]] std::string text() const;
};

/// Throws Error(config) or Error(model) naming what does not fit: more stages than layers + 2, a layout that drops a layer, a schedule that
/// cannot do these chunks, accumulators that do not divide the microbatches,
/// policies of rematerialisation for more or fewer stages.
[[nodiscard]] PipelinePlan make_plan(const PlanRequest& request);
/// The same for a schedule at hand, whatever the request says of schedules.
[[nodiscard]] PipelinePlan make_plan(const PlanRequest& request, runtime::Schedule schedule);

/// Actions that a rank may have issued beyond the one that computes.
inline constexpr int kIssueAhead = 2;

}  // namespace millrace::actors
