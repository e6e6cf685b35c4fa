#include "layers/optimizers/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/base/check.hpp"

namespace millrace::layers {

void LearningRate::validate() const {
  constexpr const char* who = "layers.learning_rate";
  MILLRACE_CHECK(rule == "constant" || rule == "cosine" || rule == "linear" || rule == "wsd", ExitCode::config, who,
                 "train.decay = \"{}\", expected constant, cosine, linear or wsd", rule);
  MILLRACE_CHECK(warmup_steps >= 0 && warmup_steps <= steps, ExitCode::config, who,
                 "train.warmup_steps = {}, expected 0 to train.steps = {}", warmup_steps, steps);
  MILLRACE_CHECK(rule != "wsd" || (decay_steps >= 0 && warmup_steps + decay_steps <= steps), ExitCode::config, who,
                 "train.decay_steps = {}, expected 0 to {} (train.steps less train.warmup_steps)", decay_steps, steps - warmup_steps);
}

double LearningRate::at(std::int64_t step) const {
  if (step < warmup_steps) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  const auto progress = [&](std::int64_t begin) {
    return steps > begin ? std::clamp(static_cast<double>(step - begin) / static_cast<double>(steps - begin), 0.0, 1.0) : 1.0;
  };
  if (rule == "cosine") return final_rate + (peak - final_rate) * (1.0 + std::cos(std::numbers::pi * progress(warmup_steps))) / 2.0;
  if (rule == "linear") return peak + (final_rate - peak) * progress(warmup_steps);
  if (rule == "wsd" && step >= steps - decay_steps) return peak + (final_rate - peak) * progress(steps - decay_steps);
  return peak;
}

}  // namespace millrace::layers
