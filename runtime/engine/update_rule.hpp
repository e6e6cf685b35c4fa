#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "runtime/optimizers/run_state.hpp"
#include "runtime/optimizers/spike_detector.hpp"
#include "runtime/train_config.hpp"

namespace millrace::runtime {

/// What a step's gradient is used for.
struct StepUpdate {
  bool skipped = false;      // the gradient is dropped: parameters and optimizer states stay as they are
  float gradient_scale = 1;  // from clipping
  double clipped_norm = 0;   // of the scaled gradient
  double learning_rate = 0;  // that the optimizer uses
  double step_rate = 0;      // the rate that the rule has for this step, which is shown; with train.numerics = hf it is the one used
  std::int64_t update = 1;   // number of the update, from 1, for bias corrections: steps that were skipped do not count
};

/// Decides from loss and gradient norm how a step updates the parameters: clipping, whether it is skipped as a spike, and the learning
/// rate. With train.numerics = hf spikes are looked for in the norm before clipping, and a step has its learning rate whether earlier ones
/// were skipped or not. With maxtext it is the norm after clipping, and the learning rate follows the number of updates. Pure: a function
/// of the steps in order, which only the coordinator knows, so it does not depend on the layout.
class UpdateRule {
 public:
  /// `updates_before`: those that the optimizer's states had seen when the run began with the states of another run.
  UpdateRule(const TrainConfig& train, std::function<double(std::int64_t step)> learning_rate, std::int64_t updates_before = 0);

  /// The update of step `step`, counted from 0. Loss and norm are finite. To be called once for every step, in order.
  [[nodiscard]] StepUpdate next(std::int64_t step, double loss, double norm);
  /// Whether steps may be skipped.
  [[nodiscard]] bool skips() const noexcept { return spikes_.has_value(); }
  /// The number of steps skipped so far.
  [[nodiscard]] std::int64_t skipped() const noexcept { return skipped_; }

  /// What a resumed run needs; empty if no step may be skipped and the optimizer's states began with the run.
  [[nodiscard]] RunState state() const;
  /// Throws Error(checkpoint) for a state that does not fit.
  void restore(const RunState& state);

 private:
  TrainConfig train_;
  std::function<double(std::int64_t)> learning_rate_;
  std::optional<SpikeDetector> spikes_;
  std::int64_t skipped_ = 0;
  std::int64_t updates_before_ = 0;
};

/// The number of updates that the optimizer's states have seen in a checkpoint of `step` finished steps with this state of the run.
[[nodiscard]] std::int64_t updates_seen(std::int64_t step, const RunState& state);

}  // namespace millrace::runtime
