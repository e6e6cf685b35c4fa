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
#include "runtime/engine/parameter_layout.hpp"
#include "runtime/engine/rank_memory.hpp"
#include "runtime/optimizers/optimizer.hpp"

namespace millrace::runtime {

/// The weights of a rank and what belongs to them, as tensors over the rank's arena. Owns no memory; layout and memory outlive it.
/// Thread: the rank's compute worker, except where said.
class ParameterStore {
 public:
  /// `optimizer`: null where nothing is updated.
  ParameterStore(const ParameterLayout& layout, const RankMemory& memory, std::shared_ptr<const Optimizer> optimizer = nullptr);

  [[nodiscard]] const ParameterLayout& layout() const noexcept { return layout_; }
  /// Throws Error(internal) where there is none.
  [[nodiscard]] const Optimizer& optimizer() const;
  /// What the memory holds for each parameter beside its value: the optimizer's states. Empty on a rank that does not train.
  [[nodiscard]] std::span<const OptimizerState> states() const noexcept;
  [[nodiscard]] int accumulator_sets() const noexcept;

  // -- tensors, f32 unless said -----------------------------------------------------------------------------------------------------------
  [[nodiscard]] kernels::Tensor master(const StoredParameter& tensor) const;
  /// `state`: a place in states().
  [[nodiscard]] kernels::Tensor state(const StoredParameter& tensor, std::size_t state) const;
  [[nodiscard]] kernels::Tensor copy(const StoredParameter& tensor) const;  // bf16; empty if there is none; see StoredParameter::copy
  /// The gradient sum of one use. Throws Error(internal) for a use that is not on this rank.
  [[nodiscard]] kernels::Tensor accumulator(const StoredParameter& tensor, int use, int set = 0) const;

  // -- accumulators -----------------------------------------------------------------------------------------------------------------------
  void zero_accumulators(const kernels::ExecutionContext& context) const;
  /// Set 0 += set 1, += set 2, …: the replicas' sums over contiguous parts of the microbatches, added in order.
  void add_accumulator_sets(const kernels::ExecutionContext& context) const;
  /// If both uses of a tied table are here: use 0 += use 1.
  void add_local_uses(const kernels::ExecutionContext& context) const;
  /// The accumulator that holds the step's gradient of a tensor once sums are complete: that of the lowest use here.
  [[nodiscard]] kernels::Tensor gradient(const StoredParameter& tensor) const { return accumulator(tensor, tensor.uses.front().use); }
  /// The gradients of the tensors that this rank owns, in model order, and the f64 array for their sums of squares, which the
  /// host can read.
  [[nodiscard]] std::span<const kernels::Tensor> owned_gradients() const noexcept { return owned_gradients_; }
  [[nodiscard]] kernels::Tensor square_sums() const;
  /// The optimizer's operands, tensor by tensor.
  [[nodiscard]] std::span<const kernels::OptimizerTensors> updates() const noexcept { return updates_; }

  // -- copies, snapshots ------------------------------------------------------------------------------------------------------------------
  /// Updates bf16 and packed copies from the masters; to be called whenever those were written, by initial values, a checkpoint
  /// or a user.
  void refresh_copies(const kernels::ExecutionContext& context) const;
  /// Updates the packed copies of one tensor, from its bf16 copy if it has one: after the optimizer, which writes that copy
  /// itself.
  void pack_copies(const kernels::ExecutionContext& context, const StoredParameter& tensor) const;
  /// Whether any tensor has packed copies.
  [[nodiscard]] bool packs() const noexcept { return packs_; }
  /// Enqueues the copies of parameters and states into staging, which must have been planned, on the background stream. What is enqueued on
  /// the compute stream meanwhile must not write them: `after_snapshot` makes it wait.
  void take_snapshot(const kernels::ExecutionContext& context) const;
  void after_snapshot(const kernels::ExecutionContext& context) const;
  /// The bytes of the last snapshot. Any thread, once it is complete.
  [[nodiscard]] std::span<const std::byte> snapshot_master(const StoredParameter& tensor) const;
  [[nodiscard]] std::span<const std::byte> snapshot_state(const StoredParameter& tensor, std::size_t state) const;

  // -- elements ---------------------------------------------------------------------------------------------------------------------------
  /// Has `write` fill the elements of an f32 tensor of the store, wherever it lies.
  void fill(const kernels::ExecutionContext& context, const kernels::Tensor& place,
            const std::function<void(std::span<float>)>& write) const;
  /// The elements of a tensor for reading or writing, where the host can access them. Throw Error(internal) if the rank does not hold it.
  [[nodiscard]] std::span<float> master(std::string_view name) const;
  [[nodiscard]] std::span<float> state(std::string_view name, std::size_t state) const;

 private:
  [[nodiscard]] kernels::Tensor fp32(MemoryKind kind, int slot, std::size_t offset, const StoredParameter& tensor) const;
  [[nodiscard]] std::span<const std::byte> staged(const StoredParameter& tensor, int slot) const;
  const ParameterLayout& layout_;
  const RankMemory& memory_;
  std::shared_ptr<const Optimizer> optimizer_;
  std::vector<kernels::Tensor> owned_gradients_;
  std::vector<kernels::OptimizerTensors> updates_;
  bool packs_ = false;
};

}  // namespace millrace::runtime
