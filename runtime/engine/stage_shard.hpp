#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/tensor.hpp"
#include "kernels/optimizer_tensors.hpp"
#include "runtime/engine/rank_memory.hpp"
#include "runtime/engine/shard_layout.hpp"
#include "runtime/optimizers/optimizer.hpp"
#include "runtime/schedule/sum_tree.hpp"

namespace millrace::runtime {

/// What a stage owns beside its programs: parameters, gradient sums, optimizer states and copies, as tensors over its sections of the
/// rank's arena. A tied table whose second use is on the same rank lies in the shard of the first use; the other stage reads it there, and
/// has only its gradient sum here. Thread: the rank's compute worker, except where said.
class StageShard {
 public:
  /// Layout and memory must outlive the shard. `optimizer`: null where nothing is updated.
  StageShard(const ShardLayout& layout, const RankMemory& memory, std::shared_ptr<const Optimizer> optimizer = nullptr);

  [[nodiscard]] const ShardLayout& layout() const noexcept { return layout_; }
  /// The weights that lie in this shard, in model order.
  [[nodiscard]] const std::vector<StoredParameter>& tensors() const noexcept { return layout_.tensors; }
  /// Throws Error(internal) where there is none.
  [[nodiscard]] const Optimizer& optimizer() const;
  /// The optimizer's states; StoredParameter::has_state says which of them a parameter has. Empty on a rank that does not train.
  [[nodiscard]] std::span<const OptimizerState> states() const noexcept;

  // -- tensors, f32 by default ---------------------------------------------------------------------------------------------------------
  /// The masters that the rank has: of the whole tensor or, if masters are divided, of what it owns (StoredParameter::held).
  [[nodiscard]] kernels::Tensor master(const StoredParameter& tensor) const;
  /// The masters of what the rank owns.
  [[nodiscard]] kernels::Tensor owned_master(const StoredParameter& tensor) const;
  /// The place where a weight with divided masters is gathered for this stage: the whole tensor, in the type that programs read. The weight
  /// is one of the stage's own or a borrowed one. Throws Error(internal) for a weight that the stage does not use.
  [[nodiscard]] kernels::Tensor gathered(const StoredParameter& tensor) const;
  /// `state` is an index into states(), of one that the parameter has. Of a weight that replicas divide the rank has what it owns.
  [[nodiscard]] kernels::Tensor state(const StoredParameter& tensor, std::size_t state) const;
  [[nodiscard]] kernels::Tensor copy(const StoredParameter& tensor) const;  // bf16; empty if there is none; see StoredParameter::copy
  /// The gradient sum of one use, which lies in the shard of the stage with that use: of the elements that the rank keeps
  /// (StoredParameter::kept). Throws Error(internal) for a use that is not on this rank.
  [[nodiscard]] kernels::Tensor accumulator(const StoredParameter& tensor, int use, int set = 0) const;
  /// What the rank owns of it, in set 0.
  [[nodiscard]] kernels::Tensor owned_sum(const StoredParameter& tensor, int use) const;

  // -- accumulators -----------------------------------------------------------------------------------------------------------------------
  /// The gradient sums of the stage's own programs, as far as the rank keeps them: by set, in model order.
  [[nodiscard]] const std::vector<std::vector<kernels::Tensor>>& accumulators() const noexcept { return accumulators_; }
  void zero_accumulators(const kernels::ExecutionContext& context) const;
  /// Before and after the programs that form the gradients of a microbatch (ShardLayout::leaves): zeroes them; adds them to the sums.
  void begin_leaf(const kernels::ExecutionContext& context, int leaf) const;
  void add_leaf(const kernels::ExecutionContext& context, int leaf) const;
  /// Adds the sets in the order of the tree of all copies' parts (sum_tree.hpp), as far as it adds parts of one copy; zeroes what was added
  /// to another. With one copy, and with a power of two, set 0 has the sum.
  void add_accumulator_sets(const kernels::ExecutionContext& context) const;
  /// If several uses of a table are on this rank: the first += the second, += the third, …, wherever they lie, in what the rank owns. After
  /// the sets of all stages were added.
  void add_local_uses(const kernels::ExecutionContext& context, const StoredParameter& tensor) const;
  /// The accumulator that holds the step's gradient of a tensor once all sums are complete: that of the tensor's first use on this
  /// rank. Of the elements that the rank keeps.
  [[nodiscard]] kernels::Tensor gradient(const StoredParameter& tensor) const { return accumulator(tensor, tensor.uses.front().use); }
  /// What this rank reports of the gradients, in model order, piece by piece (StoredParameter::reported), and the f64 array for their sums
  /// of squares, which the host can read.
  [[nodiscard]] std::span<const kernels::Tensor> owned_gradients() const noexcept { return owned_gradients_; }
  [[nodiscard]] kernels::Tensor square_sums() const;
  /// The gradients of parameters that are not trained, which no update zeroes.
  [[nodiscard]] std::span<const kernels::Tensor> frozen_gradients() const noexcept { return frozen_gradients_; }
  /// The optimizer's operands, tensor by tensor: what the rank owns. Parameters that are not trained, or not owned at all, have none.
  [[nodiscard]] std::span<const kernels::OptimizerTensors> updates() const noexcept { return updates_; }
  /// How each of them is updated.
  [[nodiscard]] std::span<const GroupScalars> update_scalars() const noexcept { return update_scalars_; }

  // -- copies, snapshots ------------------------------------------------------------------------------------------------------------------
  /// Updates bf16 and packed copies from the masters; to be called whenever those were written, by initial values, a checkpoint
  /// or a user.
  void refresh_copies(const kernels::ExecutionContext& context) const;
  void refresh_copies(const kernels::ExecutionContext& context, const StoredParameter& tensor) const;
  /// The same for weights that replicas divide, after each has got what the others updated.
  void refresh_divided_copies(const kernels::ExecutionContext& context) const;
  /// Before a bucket of parameters with divided masters is gathered: writes what the rank owns of it to its place.
  void begin_gather(const kernels::ExecutionContext& context, const ShardLayout::Bucket& bucket) const;
  /// After all buckets were: makes the packed forms.
  void end_gather(const kernels::ExecutionContext& context) const;
  /// Sets the states that begin as the parameter; to be called after parameters were written, unless states were too.
  void begin_states(const kernels::ExecutionContext& context) const;
  /// Exchanges what the rank owns of the parameters with its moving averages, and refreshes the copies of those that are not divided: for
  /// an evaluation, after which it is called again. Does nothing for parameters without an average.
  void exchange_average(const kernels::ExecutionContext& context) const;
  /// Updates the packed copies of one tensor, from its bf16 copy if it has one: after the optimizer, which writes that copy
  /// itself.
  void pack_copies(const kernels::ExecutionContext& context, const StoredParameter& tensor) const;
  /// Scratch for the optimizer: the rank's workspace, which no program uses meanwhile.
  [[nodiscard]] kernels::Scratch scratch() const noexcept;
  /// Whether any tensor has packed copies.
  [[nodiscard]] bool packs() const noexcept { return packs_; }
  /// Enqueues the copies of what the rank owns of parameters and states into staging, which must have been planned, on the background
  /// stream. What is enqueued on the compute stream meanwhile must not write them: `after_snapshot` makes it wait.
  void take_snapshot(const kernels::ExecutionContext& context) const;
  void after_snapshot(const kernels::ExecutionContext& context) const;
  /// The bytes of the last snapshot, of what the rank owns. Any thread, once it is complete.
  [[nodiscard]] std::span<const std::byte> snapshot_master(const StoredParameter& tensor) const;
  [[nodiscard]] std::span<const std::byte> snapshot_state(const StoredParameter& tensor, std::size_t state) const;

  // -- elements ---------------------------------------------------------------------------------------------------------------------------
  /// Has `write` fill the elements of an f32 tensor of the shard, wherever it lies.
  void fill(const kernels::ExecutionContext& context, const kernels::Tensor& place,
            const std::function<void(std::span<float>)>& write) const;
  /// The elements of a tensor for reading or writing, where the host can access them. Throw Error(internal) if the shard
  /// does not hold it.
  [[nodiscard]] std::span<float> master(std::string_view name) const;
  [[nodiscard]] std::span<float> state(std::string_view name, std::size_t state) const;

 private:
  const ShardLayout& layout_;
  const RankMemory& memory_;
  std::shared_ptr<const Optimizer> optimizer_;
  /// The gradient sum of one use: in each set that it has.
  struct Sum {
    std::vector<kernels::Tensor> sets;
    std::vector<PartAddition> additions;  // of sets
  };
  std::vector<Sum> sums_;                                   // in model order
  std::vector<std::vector<kernels::Tensor>> accumulators_;  // by set
  std::vector<kernels::Tensor> owned_gradients_;
  std::vector<kernels::Tensor> frozen_gradients_;
  std::vector<kernels::OptimizerTensors> updates_;
  std::vector<GroupScalars> update_scalars_;  // of each update
  bool packs_ = false;
};

/// Bytes of f32 numbers as a tensor of one axis.
[[nodiscard]] kernels::Tensor float_run(std::byte* place, std::size_t bytes);
/// Elements of a tensor as a tensor of their own: of the same axes if they are whole rows of the first one, else of a single axis.
[[nodiscard]] kernels::Tensor part_of(const kernels::Tensor& tensor, const ElementRange& elements);

}  // namespace millrace::runtime
