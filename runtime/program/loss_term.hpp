#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>

namespace millrace::runtime {

/// A count of the step's batch that a term's sum is divided by. It depends on the data alone, so it is the same in every layout.
enum class Denominator : std::uint8_t { valid_targets, microbatches, mtp_targets, mtp_eval_targets };

/// These counts for one step, or for one evaluation.
struct StepCounts {
  std::int64_t valid_targets = 0, microbatches = 0;
  /// MaxText's gradient_accumulation_steps. With G > 1 of them it adds the means of an auxiliary term over each step's rows, and divides
  /// their gradient by the valid targets, as it does with the sum of the main term (its train.py, gradient_accumulation.py).
  std::int64_t accumulation_steps = 1;
  std::int64_t mtp_targets = 0;       // of all modules of multi-token prediction (runtime/data/mtp_targets.hpp)
  std::int64_t mtp_eval_targets = 0;  // of the one whose predictions an evaluation compares with the model's
  [[nodiscard]] std::int64_t of(Denominator denominator) const {
    return std::array{valid_targets, microbatches, mtp_targets, mtp_eval_targets}.at(static_cast<std::size_t>(denominator));
  }
};

/// A named term of the loss: Σ over terms of weight · sum / (denominator · divisor) is what a step minimises, where `sum` is over the
/// step's microbatches. Terms of one name (a balance loss in every layer with experts) are added and shown as one number.
struct LossTerm {
  std::string name;   // "lm_loss", "moe_lb_loss": as it is shown
  double weight = 1;  // the term's coefficient
  Denominator denominator = Denominator::valid_targets;
  double divisor = 1;            // a constant of the model, such as the number of layers that the term is a mean over
  bool auxiliary = false;        // only shapes the training: it is part of the loss of a step, not of that of an evaluation
  bool evaluation_only = false;  // the other way round: nothing is trained by it

  /// Whether it is no part of any loss, but a number that evaluations show. Training does not compute it.
  [[nodiscard]] bool metric() const noexcept { return auxiliary && evaluation_only; }
  /// 1 / (denominator · divisor) · weight; 0 if the count is 0 or the term trains nothing. The scalar that the term's gradient begins with.
  /// For an auxiliary term with G > 1 accumulation steps it is multiplied by G / valid targets.
  [[nodiscard]] float gradient_scale(const StepCounts& counts) const {
    const std::int64_t count = evaluation_only ? 0 : counts.of(denominator);
    if (count == 0) return 0.0F;
    const float scale = static_cast<float>(weight / divisor) / static_cast<float>(count);
    if (!auxiliary || counts.accumulation_steps == 1) return scale;
    return counts.valid_targets > 0 ? scale * static_cast<float>(counts.accumulation_steps) / static_cast<float>(counts.valid_targets)
                                    : 0.0F;
  }
  /// weight · sum / (denominator · divisor); 0 if the count is 0.
  [[nodiscard]] double mean(double sum, const StepCounts& counts) const {
    const std::int64_t count = counts.of(denominator);
    return count > 0 ? weight * (sum / static_cast<double>(count) / divisor) : 0.0;
  }
  auto tie() { return std::tie(name, weight, denominator, divisor, auxiliary, evaluation_only); }  // for the wire between processes
};

}  // namespace millrace::runtime
