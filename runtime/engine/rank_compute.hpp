#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/batch.hpp"
#include "runtime/engine/optimizer_step.hpp"
#include "runtime/engine/rank_memory.hpp"
#include "runtime/engine/reduction.hpp"
#include "runtime/engine/residence.hpp"
#include "runtime/engine/stage.hpp"

namespace millrace::runtime {

/// A stage as it is passed to its rank.
struct RankStage {
  StageId stage;
  ProgramSet training;
  std::optional<ProgramSet> logits;
  std::vector<StageParameter> parameters;
  StageSlotCounts slots;
};

struct RankOptions {
  kernels::DType compute = kernels::DType::f32;
  BackwardMode mode = BackwardMode::fused;
  int accumulators = 1;
  int batches = 1;                                       // number of microbatches whose tokens the rank holds at a time
  bool training = true;                                  // accumulators, and the optimizer's states
  bool staging = false;                                  // whether there is memory for a snapshot
  int threads = 1;                                       // of the context that will run the programs
  bool plan_only = false;                                // no arena: memory() and everything in it do not exist
  std::vector<RingDemand> rings;                         // for channels that begin or end on the rank
  kernels::Device device;                                // of that context
  std::shared_ptr<const Optimizer> optimizer = nullptr;  // null: gradients are computed, and nothing is updated
  int expert_accumulators = 1;                           // the sets of gradient sums of the weights of experts
  int copies = 1;                                        // of the model, each with as many sets
  int expert_copies = 1;                                 // of each expert
  int workspaces = 1;                                    // 2: a list of the rank weaves actions
  int leaves = 0;                                        // slots for gradients of one microbatch (ShardLayout::leaves); 0: there are none
  ShardDivision division = {};                           // of the update between replicas
  std::vector<StageReplicas> replicas = {};              // who divides it; empty: nobody
  std::size_t window = 0;                                // ReductionInput::window
  bool states_on_host = false;                           // whether the optimizer's states are in memory that the host can access
  [[nodiscard]] kernels::Processor processor() const { return {device, threads}; }
};

/// All that one rank computes with: its stages, each with its programs and its shard, and the arena under them. No thread, no schedule:
/// whoever owns it says what runs next on which slots.
class RankCompute {
 public:
  RankCompute(std::vector<RankStage> stages, const RankOptions& options);
  RankCompute(const RankCompute&) = delete;
  RankCompute& operator=(const RankCompute&) = delete;

  [[nodiscard]] const RankMemory& memory() const noexcept { return *memory_; }
  [[nodiscard]] const RankMemoryPlan& memory_plan() const noexcept { return *plan_; }
  [[nodiscard]] const std::vector<Stage*>& stages() const noexcept { return stages_; }
  /// How it adds gradients with other replicas; empty unless they divide the update.
  [[nodiscard]] const Reduction& reduction() const noexcept { return reduction_; }
  /// The slots in which its stages take turns with parameters that are gathered; they hold nothing. None unless masters are divided.
  [[nodiscard]] WeightSlots weight_slots() const;
  /// Throws Error(internal) for a stage of another rank.
  [[nodiscard]] Stage& stage(StageId stage) const;
  /// The shard in which a parameter lies. Throws Error(internal) if it is in none of this rank.
  [[nodiscard]] const StageShard& shard_with(std::string_view parameter) const;
  /// The stage belongs to the caller, who gives it back before the rank goes; it is found here as before. Throws Error(internal) for a
  /// stage that is elsewhere or belongs to somebody already.
  [[nodiscard]] std::unique_ptr<Stage> hand_over(StageId stage);
  void take_back(std::unique_ptr<Stage> stage);

  /// The arrays of batch slot `index` in host memory, to be filled by the loader. Each has rows · sequence entries.
  [[nodiscard]] BatchView batch(int index) const;
  /// Sets the scales of the gradients of all loss terms for the step that begins.
  void set_loss_scales(const StepCounts& counts) const;
  /// Copies a batch slot and the scalars to where programs read them, before what is enqueued next. Does nothing if that is the same place.
  void upload(const kernels::ExecutionContext& context, int batch) const;
  /// Copies a stage's logits to where `logits` reads them, after the computation. Does nothing if that is the same place.
  void download_logits(const kernels::ExecutionContext& context, StageId stage) const;
  /// f32 logits of the stage's last run, in host memory.
  [[nodiscard]] const float* logits(StageId stage) const;

 private:
  std::vector<Stage*> stages_;                 // all, by chunk
  std::vector<std::unique_ptr<Stage>> owned_;  // by chunk; null if it was handed over
  std::unique_ptr<RankMemoryPlan> plan_;
  std::unique_ptr<RankMemory> memory_;
  std::size_t batch_tokens_ = 0;
  Reduction reduction_;
};

}  // namespace millrace::runtime
