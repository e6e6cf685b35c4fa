#pragma once

#include <cstdint>
#include <string>

namespace millrace::layers {

/// The learning rate of a run of `steps` steps. `rule`: constant, cosine, linear or wsd.
struct LearningRate {
  std::string rule = "cosine";
  double peak = 3e-4;
  double final_rate = 0;
  std::int64_t steps = 1;
  std::int64_t warmup_steps = 0;  // w
  std::int64_t decay_steps = 0;   // wsd: the last d steps

  /// Throws Error(config) for an unknown rule, and where warm-up and decay do not fit into the steps.
  void validate() const;
  /// Rate of step s, from 0. While s < w: peak·(s+1)/w. Then with p = (s−w)/(N−w): cosine final + (peak−final)(1+cos πp)/2, linear peak +
  /// (final−peak)·p; wsd holds the peak and goes linearly to final over the last d steps with p = (s−(N−d))/d. From step N on: the rate at
  /// p = 1.
  [[nodiscard]] double at(std::int64_t step) const;
};

}  // namespace millrace::layers
