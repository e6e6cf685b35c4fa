#pragma once

#include <cstdint>
#include <vector>

#include "runtime/train_config.hpp"

namespace millrace::runtime {

/// How many microbatches each step has: all the same, or a batch that grows. MaxText's enable_rampup_batch_size, in microbatches: the first
/// steps have train.ramp_microbatches, and the number grows by train.ramp_increment whenever train.ramp_rows / n rows were trained with the
/// current one, where n is the number of increments up to train.microbatches; counting begins anew each time. A pure function of the step,
/// so that a resumed run needs no state. Allocates nothing after it was made; any thread.
class BatchRamp {
 public:
  /// The same number in every step.
  BatchRamp(std::int64_t microbatches = 1);  // NOLINT(google-explicit-constructor): a number is a batch that does not grow
  /// Throws Error(config) for a ramp whose increments do not add up to train.microbatches.
  explicit BatchRamp(const TrainConfig& train);

  /// The number of microbatches of this step.
  [[nodiscard]] std::int64_t microbatches(std::int64_t step) const noexcept;
  /// The number of microbatches of all steps before this one.
  [[nodiscard]] std::int64_t before(std::int64_t step) const noexcept;
  /// The step of a microbatch that is numbered over the whole run.
  [[nodiscard]] std::int64_t step_of(std::int64_t number) const noexcept;
  /// The numbers of microbatches that steps have, ascending; the last is that of all steps from some step on.
  [[nodiscard]] std::vector<std::int64_t> sizes() const;

 private:
  /// Steps from `step` on have `microbatches`; `number` microbatches come before them.
  struct Part {
    std::int64_t step = 0, number = 0, microbatches = 1;
  };
  [[nodiscard]] const Part& part_of(std::int64_t step) const noexcept;
  std::vector<Part> parts_;
};

}  // namespace millrace::runtime
