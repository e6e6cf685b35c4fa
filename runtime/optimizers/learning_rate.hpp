#pragma once

#include <cstdint>
#include <string>

#include "runtime/train_config.hpp"

namespace millrace::runtime {

/// The learning rate as a rule for `steps` steps; a run may have fewer or more. `rule`: constant, cosine, linear, wsd (warm-up, stable,
/// linear decay), wsd-cosine or rsqrt (inverse square root).
struct LearningRate {
  std::string rule = "cosine";
  double peak = 3e-4;
  double final_rate = 0;
  std::int64_t steps = 1;         // N
  std::int64_t warmup_steps = 0;  // w
  std::int64_t decay_steps = 0;   // d: the decay of wsd and wsd-cosine takes the last d steps
  std::string numerics = "hf";    // which implementation's rule: hf or maxtext

  /// Throws Error(config) for an unknown rule, for a rule that MaxText lacks if numerics is maxtext, and if warm-up and decay do
  /// not fit into the steps.
  void validate() const;
  /// The rate of step s, from 0.
  ///
  /// hf: while s < w: peak·(s+1)/w. Then with p = (s−w)/(N−w): cosine final + (peak−final)(1+cos πp)/2, linear peak +
  /// (final−peak)·p; wsd keeps the peak and decays to final over the last d steps with p = (s−(N−d))/d: linearly or, for
  /// wsd-cosine, along a cosine. From step N on: the rate at p = 1. rsqrt is peak·√(t/(s−w+t)) with t = w, or 10,000 without warm-up, as
  /// transformers' get_inverse_sqrt_schedule; it has no end.
  ///
  /// maxtext (its create_learning_rate_schedule): while s < w: peak·s/w, so that step 0 has rate 0. A decay of C steps, of which this is
  /// number j, has p = j/(C−1), so that its first step has the peak and step N−1 exactly `final`; from step N on the rate is 0. A
  /// cosine decay of one step has p = 1, a linear one p = 0. Rounded to fp32, as MaxText computes it.
  [[nodiscard]] double at(std::int64_t step) const;
};

/// The learning rate that [train] describes.
[[nodiscard]] LearningRate learning_rate(const TrainConfig& train);

}  // namespace millrace::runtime
