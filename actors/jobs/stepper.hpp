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
#include "cluster/links/link.hpp"
#include "runtime/checkpoint/checkpoint_reader.hpp"

namespace millrace::actors {

/// Parameters and optimizer states of all ranks between two steps: where a step can be begun again.
struct StateCopy {
  std::int64_t step = 0;                      // number of finished steps
  std::vector<std::vector<std::byte>> ranks;  // the bytes of each rank
  runtime::RunState run;
};

/// The setup of a stepper.
struct StepperSetup {
  runtime::TrainConfig train;
  std::string model_from, overruled_model;  // model.from, and RunSettings::overruled_model
  const PipelinePlan* plan = nullptr;       // these must outlive the stepper
  const BatchProvider* batches = nullptr;
  std::shared_ptr<const runtime::TokenCompression> compression;  // RankResources::compression
  int threads = 1;                                               // per rank
  std::int64_t first_step = 0;                                   // number of finished steps in the initial state, which is
  const StateCopy* state = nullptr;                              // … a copy, if not null
  const runtime::CheckpointReader* checkpoint = nullptr;         // … else a checkpoint, if not null, else the run's own beginning:
  const runtime::CheckpointReader* source = nullptr;             // with the state of another run (train.start_from), if not null
};

/// Runs the whole pipeline in one process, one action at a time: the controls of all ranks and the coordinator are those of
/// training, but there are no actors and no deciding thread. Everything else (transfers, batches, sums, optimizer) happens
/// automatically as soon as it can. Nothing is evaluated, saved or sampled. The numbers are those of the run on any number of
/// processes, bit for bit.
///
/// By default the next action is that of the rank whose action the schedule would begin first if all F, I and W took equal times.
class Stepper {
 public:
  /// Returns with the first actions ready to run. Errors: those of a training run's start.
  explicit Stepper(const StepperSetup& setup);
  ~Stepper();
  Stepper(const Stepper&) = delete;
  Stepper& operator=(const Stepper&) = delete;

  /// The next action, of any rank or of `rank`; nullptr if none can run.
  [[nodiscard]] const Execute* next() const;
  [[nodiscard]] const Execute* next(runtime::RankId rank) const;
  /// The rank that runs it.
  [[nodiscard]] runtime::RankId next_rank() const;
  /// Runs the next action of `rank`, which must exist, and everything that follows from it. Exceptions of the action are passed
  /// on, and the stepper is then unusable.
  void run(runtime::RankId rank);

  /// Number of actions run since the beginning of the step.
  [[nodiscard]] std::int64_t position() const noexcept { return position_; }
  /// The current step, counted from 0.
  [[nodiscard]] std::int64_t step() const noexcept { return step_; }
  /// The state before the current step; the pointer stays the same throughout the step.
  [[nodiscard]] const std::shared_ptr<const StateCopy>& beginning() const noexcept { return beginning_; }
  /// The newest step that this stepper finished.
  [[nodiscard]] const std::optional<StepRecord>& newest() const noexcept { return newest_; }
  /// Why the run has ended; empty while it continues.
  [[nodiscard]] const std::optional<std::string>& ended() const noexcept { return ended_; }

  [[nodiscard]] const PipelinePlan& plan() const noexcept { return *setup_.plan; }
  [[nodiscard]] Rank& rank(runtime::RankId id) const;
  [[nodiscard]] const RankControl& control(runtime::RankId id) const;
  [[nodiscard]] const cluster::Links& links() const noexcept { return *links_; }
  /// To be called after weights were changed by hand, between actions or in an operation's hook: updates the copies that programs
  /// compute with.
  void refresh_copies();
  /// Sets a hook that is called around every operation of every rank; may be null. Not owned.
  void set_hook(runtime::OperationHook* hook);

 private:
  class SteppedRankPort;         // a rank's port
  class SteppedCoordinatorPort;  // the coordinator's port
  struct SteppedRank;

  void post(std::function<void()> event) { events_.push_back(std::move(event)); }
  void settle();
  void begin_step(std::int64_t step);
  [[nodiscard]] double planned_begin(const SteppedRank& stepped) const;

  StepperSetup setup_;
  std::vector<std::unique_ptr<SteppedRank>> stepped_ranks_;  // by rank
  std::unique_ptr<cluster::Links> links_;
  std::unique_ptr<cluster::Exchanges> exchanges_, replicas_;
  std::unique_ptr<SteppedCoordinatorPort> desk_;
  std::unique_ptr<Coordinator> coordinator_;
  std::deque<std::function<void()>> events_;
  std::int64_t step_ = 0, position_ = 0;
  std::shared_ptr<const StateCopy> beginning_;
  std::optional<StepRecord> newest_;
  std::optional<std::string> ended_;
};

}  // namespace millrace::actors
