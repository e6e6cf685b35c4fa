#include "runtime/engine/update_rule.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "kernels/base/check.hpp"
#include "runtime/engine/optimizer_step.hpp"

namespace millrace::runtime {
namespace {

const std::string skipped_name = std::string(run_state_prefix) + "skip_step.skipped";
const std::string before_name = std::string(run_state_prefix) + "updates_before";

/// A number that is 0 where the state does not have it.
std::int64_t number_in(const RunState& state, const std::string& name) {
  const auto found = std::ranges::find(state, name, &RunStateTensor::name);
  if (found == state.end()) return 0;
  MILLRACE_CHECK(found->values.size() == 1, ExitCode::checkpoint, "runtime.update_rule",
                 "the checkpoint has {} numbers in {}, expected one", found->values.size(), name);
  return static_cast<std::int64_t>(found->values.front());
}

}  // namespace

UpdateRule::UpdateRule(const TrainConfig& train, std::function<double(std::int64_t step)> learning_rate, std::int64_t updates_before)
    : train_(train), learning_rate_(std::move(learning_rate)), updates_before_(updates_before) {
  if (train.skip_spikes) spikes_.emplace(train.skip_window, train.skip_factor);
}

StepUpdate UpdateRule::next(std::int64_t step, double loss, double norm) {
  const bool maxtext = train_.numerics == "maxtext";
  StepUpdate update;
  update.gradient_scale = clip_scale(norm, train_);
  update.clipped_norm = norm * static_cast<double>(update.gradient_scale);
  const std::int64_t updates = step - skipped_;
  update.update = updates_before_ + updates + 1;
  update.step_rate = learning_rate_(step);
  update.learning_rate = maxtext && updates != step ? learning_rate_(updates) : update.step_rate;
  update.skipped = spikes_ && spikes_->see(loss, maxtext ? update.clipped_norm : norm);
  if (update.skipped) ++skipped_;
  return update;
}

RunState UpdateRule::state() const {
  RunState state;
  if (spikes_) {
    state = spikes_->state();
    state.push_back({skipped_name, {static_cast<double>(skipped_)}});
  }
  if (updates_before_ > 0) state.push_back({before_name, {static_cast<double>(updates_before_)}});
  return state;
}

void UpdateRule::restore(const RunState& state) {
  updates_before_ = number_in(state, before_name);
  if (!spikes_) return;
  spikes_->restore(state);
  const auto skipped = std::ranges::find(state, skipped_name, &RunStateTensor::name);
  MILLRACE_CHECK(skipped != state.end() && skipped->values.size() == 1, ExitCode::checkpoint, "runtime.update_rule",
                 "the checkpoint does not have {}, expected one number", skipped_name);
  skipped_ = static_cast<std::int64_t>(skipped->values.front());
}

std::int64_t updates_seen(std::int64_t step, const RunState& state) {
  return number_in(state, before_name) + step - number_in(state, skipped_name);
}

}  // namespace millrace::runtime
