#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/coordinator.hpp"
#include "actors/rank/batch_provider.hpp"
#include "actors/rank/rank_control.hpp"
#include "actors/setup/pipeline_plan.hpp"
#include "actors/setup/run_settings.hpp"
#include "cluster/links/link.hpp"
#include "runtime/checkpoint/checkpoint_reader.hpp"

namespace millrace::actors {

/// Parameters and optimizer states of all ranks between two steps: where a step can be begun again.
struct StateCopy {
  std::int64_t step = 0;                      // finished
  std::vector<std::vector<std::byte>> ranks;  // the bytes of each
};

/// What a stepper walks through.
struct StepperSetup {
  const RunSettings* settings = nullptr;  // these outlive the stepper
  const PipelinePlan* plan = nullptr;
  const BatchProvider* batches = nullptr;
  int threads = 1;                                        // of a rank
  std::int64_t first_step = 0;                            // finished steps of the state that it begins with: that of
  const StateCopy* state = nullptr;                       // … a copy, where there is none
  const runtime::CheckpointReader* checkpoint = nullptr;  // … a checkpoint, else the run's own beginning
};

/// The whole pipeline in one process, one action at a time: the controls of all ranks and the coordinator as in training, without actors
/// and without a thread that decides. What is not an action (tokens handed on, batches, sums, optimizer) follows by itself as soon as it
/// can. Nothing is evaluated, saved or sampled. The numbers are those of the run on any number of processes, to the bit.
///
/// Which of the ranks' next actions comes first is recorded: the one that the schedule would begin first if all F, I and W took as long.
class Stepper {
 public:
  /// Ends with the first actions ready to run. Errors: those of a training run's start.
  explicit Stepper(const StepperSetup& setup);
  ~Stepper();
  Stepper(const Stepper&) = delete;
  Stepper& operator=(const Stepper&) = delete;

  /// The action that comes next, or the next one of `rank`; nullptr where none can run.
  [[nodiscard]] const Execute* next() const;
  [[nodiscard]] const Execute* next(runtime::RankId rank) const;
  /// Who runs it.
  [[nodiscard]] runtime::RankId next_rank() const;
  /// Runs the next action of `rank`, which must be there, and all that follows from it. What the action throws comes out, and the stepper
  /// has ended.
  void run(runtime::RankId rank);

  /// Actions run since the beginning of the step.
  [[nodiscard]] std::int64_t position() const noexcept { return position_; }
  /// The step at hand, counted from 0.
  [[nodiscard]] std::int64_t step() const noexcept { return step_; }
  /// State before the step at hand; the same pointer as long as that lasts.
  [[nodiscard]] const std::shared_ptr<const StateCopy>& beginning() const noexcept { return beginning_; }
  /// The newest finished step of this stepper.
  [[nodiscard]] const std::optional<StepRecord>& newest() const noexcept { return newest_; }
  /// Why nothing follows; empty while the run goes on.
  [[nodiscard]] const std::optional<std::string>& ended() const noexcept { return ended_; }

  [[nodiscard]] const PipelinePlan& plan() const noexcept { return *setup_.plan; }
  [[nodiscard]] Rank& rank(runtime::RankId id) const;
  [[nodiscard]] const RankControl& control(runtime::RankId id) const;
  [[nodiscard]] const cluster::Links& links() const noexcept { return *links_; }
  /// After weights were changed by hand, between actions or from an operation's hook: what programs compute with follows.
  void refresh_copies();
  /// Called around every operation of every rank; may be null. Not owned.
  void set_hook(runtime::OperationHook* hook);

 private:
  class SteppedRankPort;         // a rank's port
  class SteppedCoordinatorPort;  // the coordinator's
  struct SteppedRank;

  void post(std::function<void()> event) { events_.push_back(std::move(event)); }
  void settle();
  void begin_step(std::int64_t step);
  [[nodiscard]] double planned_begin(const SteppedRank& seat) const;

  StepperSetup setup_;
  std::vector<std::unique_ptr<SteppedRank>> seats_;  // by rank
  std::unique_ptr<cluster::Links> links_;
  std::unique_ptr<SteppedCoordinatorPort> desk_;
  std::unique_ptr<Coordinator> coordinator_;
  std::deque<std::function<void()>> events_;
  std::int64_t step_ = 0, position_ = 0;
  std::shared_ptr<const StateCopy> beginning_;
  std::optional<StepRecord> newest_;
  std::optional<std::string> ended_;
};

}  // namespace millrace::actors
