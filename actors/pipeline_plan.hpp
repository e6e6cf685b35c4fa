#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/link.hpp"
#include "layers/model.hpp"
#include "layers/partition.hpp"
#include "runtime/program/program.hpp"
#include "runtime/program/rematerialize.hpp"
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
};

/// Who does what, before anything is allocated: the same on every process of a job, which the run hash proves.
struct PipelinePlan {
  layers::ModelConfig model;
  std::vector<layers::StageLayout> layout;        // by stage
  runtime::Schedule schedule;                     // of a training step
  runtime::Ledger ledger;                         // slots and depths
  std::vector<runtime::Edge> edges;               // edges[i].id == i; the channel of edge i has id i
  std::vector<layers::ParameterSpec> parameters;  // of the whole model, in model order
  runtime::RematerializationPolicy rematerialize;
  kernels::DType compute = kernels::DType::f32;
  std::int64_t rows = 1, sequence = 1;  // of a microbatch
  double z_loss = 0;
  int accumulators = 1;         // contiguous parts of the microbatches with a gradient sum each
  bool split_backward = false;  // the table has I and W

  [[nodiscard]] int ranks() const { return schedule.placement.ranks(); }
  [[nodiscard]] int stages() const { return schedule.placement.stages(); }
  [[nodiscard]] runtime::RankId head_rank() const { return schedule.placement.rank_of(runtime::StageId(stages() - 1)); }
  [[nodiscard]] runtime::RankId embedding_rank() const { return schedule.placement.rank_of(runtime::StageId(0)); }
  /// A tied table whose two uses lie on different ranks: both hold it and exchange accumulators once a step.
  [[nodiscard]] bool replicated_table() const { return model.tie_word_embeddings && head_rank() != embedding_rank(); }
  /// Channel ids of that exchange: embedding → head and back.
  [[nodiscard]] int tied_channel(bool to_head) const { return static_cast<int>(edges.size()) + (to_head ? 0 : 1); }
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
/// cannot do these chunks, accumulators that do not divide the microbatches.
[[nodiscard]] PipelinePlan make_plan(const PlanRequest& request);

/// Actions that a rank may have issued beyond the one that computes.
inline constexpr int kIssueAhead = 2;

}  // namespace millrace::actors
