#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/messages/messages.hpp"
#include "kernels/base/check.hpp"
#include "runtime/batch_ramp.hpp"
#include "runtime/data/data_progress.hpp"
#include "runtime/engine/expert_load.hpp"
#include "runtime/engine/layer_activation.hpp"
#include "runtime/engine/observation_sums.hpp"
#include "runtime/engine/step_loss.hpp"
#include "runtime/engine/update_rule.hpp"
#include "runtime/train_config.hpp"

namespace millrace::actors {

/// What the coordinator knows about the run before it starts.
struct CoordinatorSetup {
  int ranks = 1;
  int model_stages = 1;  // of one replica; those of the others follow
  std::function<std::string(std::int64_t rank)> rank_text = [](std::int64_t rank) { return fmt::format("rank {}", rank); };
  std::int64_t first_step = 0;  // number of steps in the checkpoint that was resumed
  runtime::TrainConfig train;
  runtime::EvaluateConfig evaluate;
  runtime::CheckpointConfig checkpoint;
  runtime::SampleConfig sample;
  bool writes_checkpoints = false;
  bool replays = true;                           // whether a step that is not finite is run again to find the operation
  std::int64_t evaluation_microbatches = 0;      // per evaluation; 0: nothing is held out
  std::int64_t evaluation_targets = 0;           // number of valid targets of these microbatches
  std::int64_t evaluation_mtp_targets = 0;       // of the modules of multi-token prediction
  std::int64_t evaluation_mtp_eval_targets = 0;  // of the module whose predictions are compared with the model's
  bool evaluation_recorded = false;              // metrics.jsonl has the evaluation after first_step
  std::vector<std::string> tensors;              // names of the parameters, in model order
  std::vector<std::int32_t> prompt;              // the tokens that a sample begins with
  std::int64_t vocabulary = 0;
  double flops_per_step = 0;
  std::function<std::int64_t(std::int64_t step)> valid_targets;
  std::function<std::int64_t(std::int64_t step)> mtp_targets = [](std::int64_t) { return std::int64_t{0}; };
  std::function<runtime::DataProgress(std::int64_t steps)> data_progress = [](std::int64_t) { return runtime::DataProgress(); };
  std::function<double(std::int64_t step)> learning_rate;
  runtime::RunState run_state = {};  // of the checkpoint that was resumed
  std::int64_t updates_before = 0;   // that the optimizer's states had seen when the run began (train.start_with = state)
};

/// One finished step, with the numbers of the log line and metrics.jsonl.
struct StepRecord {
  std::int64_t step = 0, steps = 0;  // step is counted from 1 here
  double loss = 0, gradient_norm = 0, learning_rate = 0;
  std::vector<runtime::StepLoss::Named> terms;        // of the loss; empty if it has only one
  std::vector<runtime::ExpertLoad> experts;           // of all routers, in model order
  std::vector<runtime::LayerActivation> activations;  // of all layers, with run.record_internal_metrics
  std::int64_t tokens = 0, targets = 0;
  runtime::DataProgress data;  // read by this step and all before it
  double seconds = 0;
  double flops = 0;
  MetricValues metrics{};                           // of step_metrics, over all ranks
  std::uint64_t device_used = 0, device_total = 0;  // bytes of the GPU with the largest fraction in use; 0: none
  std::int64_t skipped = 0;          // steps without an update so far, with train.skip_spikes; a step that is not finite ends the run
  std::optional<double> max_logits;  // the largest attention score, with train.qk_clip
  std::optional<bool> skipped_this;  // whether this step was skipped; empty if none may be
  std::vector<StepTimes> ranks;
};

/// One finished evaluation on the held-out microbatches.
struct EvaluationRecord {
  std::int64_t step = 0;                        // number of steps done before it
  double loss = 0;                              // without auxiliary terms
  std::int64_t targets = 0;                     // number of tokens that it is the mean over
  std::vector<runtime::StepLoss::Named> terms;  // of the loss; empty if it has only one
  bool in_nats = true;                          // the loss is nats per token: train.loss is cross_entropy
};

/// A checkpoint that is begun, or why it could not be.
struct CheckpointAttempt {
  std::string folder;
  std::string problem;  // such as that there is no space; empty if there is a folder
};

/// The effects that the coordinator can have. The actor implements it; tests record the calls.
class CoordinatorPort {
 public:
  virtual ~CoordinatorPort() = default;
  virtual void to_ranks(const ToRank& message) = 0;
  /// All ranks are ready; the argument is the planned memory of the largest rank.
  virtual void ready(std::uint64_t planned_bytes) = 0;
  /// Makes a folder for the checkpoint of `step` (number of finished steps). The port prints a problem as a warning.
  virtual CheckpointAttempt begin_checkpoint(std::int64_t step) = 0;
  /// Commits what the ranks wrote, in the background; Coordinator::committed() follows.
  virtual void commit_checkpoint(std::int64_t step, std::vector<std::string> reports) = 0;
  /// Removes what the ranks wrote, in the background; Coordinator::committed() follows, with `why`. No rank is writing any more.
  virtual void discard_checkpoint(std::int64_t step, const std::string& why) = 0;
  virtual void step_done(const StepRecord& record) = 0;
  virtual void evaluated(const EvaluationRecord& record) = 0;
  virtual void sampled(const std::vector<std::int32_t>& tokens) = 0;
  /// True once a user or the batch system has asked the run to save and stop.
  virtual bool stop_requested() = 0;
  virtual std::int64_t now() = 0;  // nanoseconds of the steady clock
  /// The run is over. If the code is ok, everything is on the disk and Stop has been sent.
  virtual void finished(ExitCode code, const std::string& message) = 0;
};

/// Drives the phases: step (forward and backward), optimizer, checkpoint, evaluation, sample, end. Plain C++ without threads:
/// messages in, messages out. It sends messages to ranks per phase, never per microbatch. Sums over ranks are computed in model
/// order, so they do not depend on which rank owns what.
class Coordinator {
 public:
  Coordinator(CoordinatorSetup setup, CoordinatorPort& port);

  /// Handles a message from any rank; messages of one rank must arrive in order.
  void receive(const ToCoordinator& message);
  /// The checkpoint of `step` was committed, or `error` says why not.
  void committed(std::int64_t step, const std::string& error);

  /// A user or the batch system asks the run to save and stop: a running evaluation or sample is interrupted. The resumed run
  /// repeats the evaluation.
  void stop();

  /// What the run carries from step to step beside its parameters and their states.
  [[nodiscard]] runtime::RunState run_state() const { return rule_.state(); }

  /// The current phase for error messages, such as "step 12" or "evaluation after step 40".
  [[nodiscard]] std::string describe() const;

 private:
  enum class Phase : std::uint8_t { starting, gradients, optimizing, evaluating, sampling, draining, failing, ended };
  // -- one handler per message
  void handle(const RankReady& message);
  void handle(const StepReport& message);
  void handle(const Optimized& message);
  void handle(const SnapshotTaken& message);
  void handle(const ShardWritten& message);
  void handle(const EvaluationReport& message);
  void handle(const LogitsReport& message);
  void handle(const Collected& message);
  void handle(const StageFailed& message);
  // -- phases
  void begin_step();
  void update();
  void not_finite(const std::string& what);
  void after_step();
  void save_and_go_on();
  void begin_evaluation();
  void begin_sample();
  void next_sample_token();
  void drain();
  void snapshot();
  void count_save(std::int64_t step, const std::string& error);
  void fail_step(ExitCode code, const std::string& message);
  void fail_run(ExitCode code, const std::string& message);
  [[nodiscard]] bool evaluation_due() const;
  [[nodiscard]] bool all_answered() { return ++answers_ == setup_.ranks; }
  [[nodiscard]] StepRecord record() const;
  [[nodiscard]] double combined(std::size_t metric) const;

  CoordinatorSetup setup_;
  CoordinatorPort& port_;
  Phase phase_ = Phase::starting;
  int answers_ = 0;
  std::int64_t step_ = 0;
  std::int64_t saved_step_ = 0;  // that of the newest checkpoint of the run; 0 without any
  std::string bad_step_;         // what was not finite in the step that is being run again
  bool stopping_ = false, last_ = false, save_due_ = false, abandoned_ = false;
  std::int64_t step_begin_ = 0;
  runtime::StepLoss loss_;
  std::vector<runtime::Observation> observed_;  // of the step, from before its update
  runtime::BatchRamp ramp_;
  runtime::UpdateRule rule_;
  runtime::StepUpdate update_;
  double norm_ = 0;
  std::vector<StepReport> reports_;            // by rank
  std::vector<EvaluationReport> evaluations_;  // by rank
  std::vector<std::int32_t> sample_;
  // the checkpoint in progress
  bool saving_ = false, waits_for_staging_ = false;
  int staged_ = 0, shards_ = 0, failed_saves_ = 0;
  std::string save_error_;           // of the first rank that could not write
  std::uint64_t planned_bytes_ = 0;  // of the rank with the most
  std::vector<std::string> shard_reports_;
  std::vector<CopyHash> copies_;                // of the checkpoint in progress
  ExitCode failure_code_ = ExitCode::internal;  // why the run ends after the checkpoint in progress
  std::string failure_;
};

}  // namespace millrace::actors
