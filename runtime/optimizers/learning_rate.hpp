#pragma once

#include <cstdint>
#include <string>

#include "runtime/train_config.hpp"

namespace millrace::runtime {

/// The learning rate of a run of `steps` steps. `rule`: constant, cosine, linear, wsd (warm-up, stable, linear decay) or wsd-cosine.
struct LearningRate {
  std::string rule = "cosine";
  double peak = 3e-4;
  double final_rate = 0;
  std::int64_t steps = 1;         // N
  std::int64_t warmup_steps = 0;  // w
  std::int64_t decay_steps = 0;   // wsd: the last d steps
  std::string numerics = "hf";    // whose rule: hf or maxtext

  /// Throws Error(config) for an unknown rule, for one that MaxText lacks where numerics is maxtext, and where warm-up and decay do not fit
  /// into the steps.
  void validate() const;
  /// The rate of step s, from 0.
  ///
  /// hf: while s < w: peak·(s+1)/w. Then with p = (s−w)/(N−w): cosine final + (peak−final)(1+cos πp)/2, linear peak + (final−peak)·p; wsd
  /// holds the peak and goes to final over the last d steps with p = (s−(N−d))/d, in a line or, as wsd-cosine, in a cosine. From step N on:
  /// the rate at p = 1.
  ///
  /// maxtext (its create_learning_rate_schedule): while s < w: peak·s/w, so that step 0 has rate 0. A decay of C steps, of which this is
  /// number j, has p = j/(C−1), so that its first step has the peak and step N−1 exactly `final`; from step N on the rate is 0. A cosine of
  /// one step is at p = 1, a line of one step at p = 0. Rounded to fp32, as MaxText computes it.
  [[nodiscard]] double at(std::int64_t step) const;
};

/// The learning rate that [train] describes.
[[nodiscard]] LearningRate learning_rate(const TrainConfig& train);

}  // namespace millrace::runtime
