#include "runtime/engine/update_rule.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "kernels/base/check.hpp"
#include "runtime/engine/optimizer_step.hpp"

namespace millrace::runtime {
namespace {

const std::string skipped_name = std::string(run_state_prefix) + "skip_step.skipped";

}  // namespace

UpdateRule::UpdateRule(const TrainConfig& train, std::function<double(std::int64_t step)> learning_rate)
    : train_(train), learning_rate_(std::move(learning_rate)) {
  if (train.skip_spikes) spikes_.emplace(train.skip_window, train.skip_factor);
}

StepUpdate UpdateRule::next(std::int64_t step, double loss, double norm) {
  const bool maxtext = train_.numerics == "maxtext";
  StepUpdate update;
  update.gradient_scale = clip_scale(norm, train_);
  update.clipped_norm = norm * static_cast<double>(update.gradient_scale);
  const std::int64_t updates = step - skipped_;
  update.update = updates + 1;
  update.step_rate = learning_rate_(step);
  update.learning_rate = maxtext && updates != step ? learning_rate_(updates) : update.step_rate;
  update.skipped = spikes_ && spikes_->see(loss, maxtext ? update.clipped_norm : norm);
  if (update.skipped) ++skipped_;
  return update;
}

RunState UpdateRule::state() const {
  if (!spikes_) return {};
  RunState state = spikes_->state();
  state.push_back({skipped_name, {static_cast<double>(skipped_)}});
  return state;
}

void UpdateRule::restore(const RunState& state) {
  if (!spikes_) return;
  spikes_->restore(state);
  const auto skipped = std::ranges::find(state, skipped_name, &RunStateTensor::name);
  MILLRACE_CHECK(skipped != state.end() && skipped->values.size() == 1, ExitCode::checkpoint, "runtime.update_rule",
                 "the checkpoint does not have {}, expected one number", skipped_name);
  skipped_ = static_cast<std::int64_t>(skipped->values.front());
}

}  // namespace millrace::runtime
