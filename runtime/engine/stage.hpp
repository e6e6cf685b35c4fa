#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/engine/executable.hpp"
#include "runtime/engine/rank_memory.hpp"
#include "runtime/engine/shard_layout.hpp"
#include "runtime/engine/stage_shard.hpp"
#include "runtime/ids.hpp"
#include "runtime/schedule/action.hpp"

namespace millrace::runtime {

/// What a stage can be asked to run. The first four are the actions of a training step.
enum class Pass : std::uint8_t { forward, input_gradient, weight_gradient, backward, evaluate, logits };
[[nodiscard]] std::string_view to_string(Pass pass);
[[nodiscard]] Pass pass_of(ActionKind kind);
/// The program that a pass runs.
[[nodiscard]] ProgramKind program_of(Pass pass);

/// The memory that one execution uses: addresses of ring slots, which may be a neighbour's, and indices of the rank's own slots.
/// Memory that a pass does not use is ignored.
struct ExecutionSlots {
  std::byte* boundary_in = nullptr;
  std::byte* boundary_out = nullptr;  // null in the last stage; logits go to the rank's logits
  std::byte* gradient_in = nullptr;
  std::byte* gradient_out = nullptr;
  int batch = 0;
  int workspace = 0;  // 1: that of the second of two woven actions
  int stash_input = 0, stash_weight = 0, handoff = 0;
  int accumulators = 0;  // index of the set or, where programs add to leaves, of the leaf
  int expert_accumulators = 0;
  int result = 0;  // for a stage with loss terms
};

/// One virtual stage: its shard (parameters, gradient sums, optimizer states) and its programs with a place for every value: training
/// (fused or split backward), evaluation (the same forward, of which nothing is kept) and, if needed, logits. It has no schedule and no
/// thread; used on the rank's compute worker.
class Stage {
 public:
  /// `mode`: fused (F, B) or split (F, I, W). `logits`: for the last stage, a program that ends in logits; other stages generate
  /// with evaluate.
  Stage(ShardLayout shard, ProgramSet training, std::optional<ProgramSet> logits, BackwardMode mode, const kernels::Processor& processor);
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  [[nodiscard]] StageId stage() const noexcept { return layout_.stage; }
  [[nodiscard]] const ShardLayout& shard_layout() const noexcept { return layout_; }
  /// Throws Error(internal) before `attach`.
  [[nodiscard]] const StageShard& shard() const;
  [[nodiscard]] const ProgramSet& programs() const noexcept { return training_.programs(); }
  [[nodiscard]] const MemoryPlan& plan() const noexcept { return training_.plan(); }
  [[nodiscard]] const std::vector<StageLoss>& losses() const noexcept { return training_.programs().losses; }
  [[nodiscard]] const std::vector<StageObservation>& observations() const noexcept { return training_.programs().observations; }
  [[nodiscard]] bool has_logits() const noexcept { return logits_ != nullptr; }
  /// The programs and places that a pass uses. Throws Error(internal) for logits if there are none.
  [[nodiscard]] const ProgramSet& programs(Pass pass) const { return executable(pass).programs(); }
  [[nodiscard]] const MemoryPlan& plan(Pass pass) const { return executable(pass).plan(); }

  /// Bytes of one slot of each kind, for the rank's plan.
  [[nodiscard]] StageMemoryRequest demand(const StageSlotCounts& slots) const;
  /// Binds the memory, where the shard is from now on, and writes the constants. To be called before the first run; `memory` must outlive
  /// the stage. `scalars`: where the stage's part of the rank's scalars begins, in bytes. `optimizer`: of the shard; may be null.
  void attach(const RankMemory& memory, std::size_t scalars, std::shared_ptr<const Optimizer> optimizer);
  /// Sets the scales of the loss terms' gradients for the step that begins.
  void set_loss_scales(const StepCounts& counts) const;

  /// Runs a pass of one segment, as all are without exchanges.
  void run(Pass pass, const kernels::ExecutionContext& context, const ExecutionSlots& slots, OperationHook* hook = nullptr);
  /// Runs one segment of a pass; what it posts goes to `port`. All segments are run in order and on the same slots, each when the exchange
  /// that it awaits is complete.
  void run_segment(Pass pass, std::size_t segment, const kernels::ExecutionContext& context, const ExecutionSlots& slots,
                   OperationHook* hook, ExchangePort* port);
  [[nodiscard]] const std::vector<Segment>& segments(Pass pass) const { return executable(pass).segments(program_of(pass)); }
  [[nodiscard]] Bindings bindings(Pass pass, const ExecutionSlots& slots) const;
  /// The place of a value: for captures, break points and tests.
  [[nodiscard]] kernels::Tensor tensor(Pass pass, ValueId value, const ExecutionSlots& slots) const;
  /// The sum of loss term `term` (its place in losses()) over the microbatch that ran with result slot `index`. On a GPU valid once what
  /// was enqueued has run.
  [[nodiscard]] double loss_sum(std::size_t term, int index) const;
  /// Adds the entries of observation `place` (its place in observations()) of that microbatch to `sums`, which has as many; valid as above.
  void add_observed(std::size_t place, int index, std::span<double> sums) const;

 private:
  [[nodiscard]] const Executable& executable(Pass pass) const;
  [[nodiscard]] Executable& executable(Pass pass);
  [[nodiscard]] std::array<const Executable*, 3> executables() const noexcept;  // by slot of constants; null if there is none
  [[nodiscard]] static std::size_t constant_slot(Pass pass) noexcept;
  struct Part {
    std::size_t offset = 0, bytes = 0;
  };
  [[nodiscard]] std::size_t offset_of(ValueId result) const { return plan().placements.at(static_cast<std::size_t>(result.index)).offset; }
  void note_results();
  [[nodiscard]] bool makes_leaf(Pass pass) const noexcept {
    return layout_.leaves && (pass == Pass::weight_gradient || pass == Pass::backward);
  }
  void complete(Pass pass, const kernels::ExecutionContext& context, const ExecutionSlots& slots) const;
  void copy_results(ProgramKind kind, const kernels::ExecutionContext& context, int index) const;

  ShardLayout layout_;
  Executable training_;
  Executable evaluation_;
  std::unique_ptr<Executable> logits_;
  const RankMemory* memory_ = nullptr;
  std::optional<StageShard> shard_;
  std::size_t scalars_ = 0;
  std::array<std::vector<Part>, program_kind_count> written_results_;  // by program: the parts of a result slot that it writes
};

}  // namespace millrace::runtime
