#include "runtime/optimizers/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/base/check.hpp"

namespace millrace::runtime {
namespace {

bool is_wsd(const std::string& rule) { return rule == "wsd" || rule == "wsd-cosine"; }

double cosine(double peak, double last, double progress) {
  return last + (peak - last) * (1.0 + std::cos(std::numbers::pi * progress)) / 2.0;
}
double line(double peak, double last, double progress) { return peak + (last - peak) * progress; }

double hugging_face_rate(const LearningRate& rate, std::int64_t step) {
  if (step < rate.warmup_steps) return rate.peak * static_cast<double>(step + 1) / static_cast<double>(rate.warmup_steps);
  const auto progress = [&](std::int64_t begin) {
    return rate.steps > begin ? std::clamp(static_cast<double>(step - begin) / static_cast<double>(rate.steps - begin), 0.0, 1.0) : 1.0;
  };
  if (rate.rule == "cosine") return cosine(rate.peak, rate.final_rate, progress(rate.warmup_steps));
  if (rate.rule == "linear") return line(rate.peak, rate.final_rate, progress(rate.warmup_steps));
  if (rate.rule == "rsqrt") {
    const double scale = rate.warmup_steps > 0 ? static_cast<double>(rate.warmup_steps) : 10'000.0;
    return rate.peak * std::sqrt(scale / (static_cast<double>(step - rate.warmup_steps) + scale));
  }
  const std::int64_t begin = rate.steps - rate.decay_steps;
  if (!is_wsd(rate.rule) || step < begin) return rate.peak;
  return rate.rule == "wsd" ? line(rate.peak, rate.final_rate, progress(begin)) : cosine(rate.peak, rate.final_rate, progress(begin));
}

double maxtext_rate(const LearningRate& rate, std::int64_t step) {
  if (step >= rate.steps) return 0.0;
  if (step < rate.warmup_steps) return rate.peak * static_cast<double>(step) / static_cast<double>(rate.warmup_steps);
  const std::int64_t decay = is_wsd(rate.rule) ? rate.decay_steps : rate.steps - rate.warmup_steps;
  const std::int64_t begin = rate.steps - decay;
  if (step < begin) return rate.peak;
  const double progress = static_cast<double>(step - begin) / static_cast<double>(std::max<std::int64_t>(decay - 1, 1));
  if (rate.rule == "wsd") return line(rate.peak, rate.final_rate, progress);
  return cosine(rate.peak, rate.final_rate, decay == 1 ? 1.0 : progress);
}

}  // namespace

void LearningRate::validate() const {
  constexpr const char* component = "runtime.learning_rate";
  const bool decays = rule == "cosine" || is_wsd(rule);
  MILLRACE_CHECK(decays || rule == "constant" || rule == "linear" || rule == "rsqrt", ExitCode::config, component,
                 "train.decay = \"{}\", expected constant, cosine, linear, wsd, wsd-cosine or rsqrt", rule);
  MILLRACE_CHECK(decays || numerics != "maxtext", ExitCode::config, component,
                 "train.decay = \"{}\" with train.numerics = maxtext, expected cosine, wsd or wsd-cosine: MaxText has no other", rule);
  MILLRACE_CHECK(warmup_steps >= 0 && warmup_steps <= steps, ExitCode::config, component,
                 "train.warmup_steps = {}, expected 0 to the {} steps of the learning rate (train.schedule_steps, by default train.steps)",
                 warmup_steps, steps);
  MILLRACE_CHECK(
      !is_wsd(rule) || (decay_steps >= 0 && warmup_steps + decay_steps <= steps), ExitCode::config, component,
      "train.decay_steps = {}, expected 0 to {}: the {} steps of the learning rate (train.schedule_steps, by default train.steps) "
      "without train.warmup_steps",
      decay_steps, steps - warmup_steps, steps);
}

double LearningRate::at(std::int64_t step) const {
  return numerics == "maxtext" ? static_cast<double>(static_cast<float>(maxtext_rate(*this, step))) : hugging_face_rate(*this, step);
}

LearningRate learning_rate(const TrainConfig& train) {
  return {train.decay,       train.learning_rate, train.final_learning_rate, schedule_steps(train), train.warmup_steps,
          train.decay_steps, train.numerics};
}

}  // namespace millrace::runtime
