#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/engine/observation_sums.hpp"
#include "runtime/engine/rank_compute.hpp"
#include "runtime/engine/step_loss.hpp"

namespace millrace::runtime {

/// The result of one pass over the microbatches.
struct StraightSums {
  std::vector<LossTermSums> losses;  // of all stages
  std::int64_t targets = 0, microbatches = 0;
  std::vector<ObservedSums> observed = {};  // of all stages, after accumulate
  /// The loss over these targets and microbatches.
  [[nodiscard]] StepLoss mean() const;
};

/// The result of one training step.
struct StraightStep {
  StraightSums sums;
  double loss = 0;  // of all terms
  double norm = 0;  // of the gradient, before clipping
};

/// Fills the arrays of microbatch `m`.
using FillBatch = std::function<void(std::int64_t m, const BatchView& batch)>;

/// The plainest trainer that there is: all stages on one rank, for each microbatch forward through all and backward through all, then norm,
/// clip and optimizer. No actors, no schedule, no links: the control that every pipelined run is compared with, bit for bit.
class SequentialTrainer {
 public:
  /// `stages` are all stages of the model in order; their slot counts are set here.
  SequentialTrainer(std::vector<RankStage> stages, RankOptions options);

  [[nodiscard]] RankCompute& rank() noexcept { return rank_; }
  [[nodiscard]] const RankCompute& rank() const noexcept { return rank_; }

  /// Accumulates the gradients of `microbatches` microbatches: those of part p of A, p, p + A, p + 2A, …, in set p. The sets are then added
  /// as a tree (sum_tree.hpp), and the uses of a tied table in order. `valid_targets` > 0 is the denominator of the loss.
  StraightSums accumulate(const kernels::ExecutionContext& context, std::int64_t microbatches, std::int64_t valid_targets,
                          const FillBatch& fill, OperationHook* hook = nullptr);
  /// accumulate, then norm, clipping to `clip` (0: none), the update by the optimizer of RankOptions, and that of routers' biases by
  /// `bias_rate` (load_balance.hpp). `scalars.gradient_scale` is set here. Throws Error(numerics) before anything is changed when loss or
  /// norm is not finite.
  StraightStep step(const kernels::ExecutionContext& context, std::int64_t microbatches, std::int64_t valid_targets, const FillBatch& fill,
                    UpdateScalars scalars, double clip, OperationHook* hook = nullptr, double bias_rate = 0);
  /// Loss sums without gradients.
  StraightSums evaluate(const kernels::ExecutionContext& context, std::int64_t microbatches, const FillBatch& fill,
                        OperationHook* hook = nullptr);
  /// fp32 logits [T, V] of one microbatch; valid until the next run. The last stage must have a program for them.
  [[nodiscard]] kernels::Tensor logits(const kernels::ExecutionContext& context, const FillBatch& fill, OperationHook* hook = nullptr);

 private:
  [[nodiscard]] ExecutionSlots slots_of(std::size_t position) const;
  void backward(const kernels::ExecutionContext& context, std::int64_t microbatch, OperationHook* hook);
  BackwardMode mode_;
  int accumulators_, expert_accumulators_;  // numbers of sets
  RankCompute rank_;
};

}  // namespace millrace::runtime
