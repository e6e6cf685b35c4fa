#include "runtime/batch_ramp.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/base/check.hpp"

namespace millrace::runtime {

BatchRamp::BatchRamp(std::int64_t microbatches) : parts_{{0, 0, microbatches}} {}

BatchRamp::BatchRamp(const TrainConfig& train) {
  const std::int64_t all = train.microbatches;
  if (train.ramp_microbatches > 0) {
    constexpr const char* component = "runtime.batch_ramp";
    MILLRACE_CHECK(train.ramp_microbatches < all, ExitCode::config, component,
                   "train.ramp_microbatches = {}, expected fewer than train.microbatches = {}", train.ramp_microbatches, all);
    MILLRACE_CHECK(
        train.ramp_increment >= 1 && (all - train.ramp_microbatches) % train.ramp_increment == 0, ExitCode::config, component,
        "train.ramp_increment = {} does not lead from train.ramp_microbatches = {} to train.microbatches = {}, expected a divisor of {}",
        train.ramp_increment, train.ramp_microbatches, all, all - train.ramp_microbatches);
    MILLRACE_CHECK(train.ramp_rows >= 1, ExitCode::config, component,
                   "train.ramp_rows = {} with train.ramp_microbatches, expected 1 or more", train.ramp_rows);
    const std::int64_t increments = (all - train.ramp_microbatches) / train.ramp_increment;
    const double rows = static_cast<double>(train.ramp_rows) / static_cast<double>(increments);
    Part part{0, 0, train.ramp_microbatches};
    for (std::int64_t i = 0; i < increments; ++i) {
      parts_.push_back(part);
      const auto steps = std::max<std::int64_t>(1, std::llround(std::ceil(rows / static_cast<double>(part.microbatches * train.batch))));
      part = {part.step + steps, part.number + steps * part.microbatches, part.microbatches + train.ramp_increment};
    }
    parts_.push_back(part);
  } else {
    parts_.push_back({0, 0, all});
  }
}

const BatchRamp::Part& BatchRamp::part_of(std::int64_t step) const noexcept {
  auto part = parts_.rbegin();
  while (part->step > step && part + 1 != parts_.rend()) ++part;
  return *part;
}

std::int64_t BatchRamp::microbatches(std::int64_t step) const noexcept { return part_of(step).microbatches; }

std::int64_t BatchRamp::before(std::int64_t step) const noexcept {
  const Part& part = part_of(step);
  return part.number + (step - part.step) * part.microbatches;
}

std::int64_t BatchRamp::step_of(std::int64_t number) const noexcept {
  auto part = parts_.rbegin();
  while (part->number > number && part + 1 != parts_.rend()) ++part;
  return part->step + (number - part->number) / part->microbatches;
}

std::vector<std::int64_t> BatchRamp::sizes() const {
  std::vector<std::int64_t> sizes;
  for (const Part& part : parts_) sizes.push_back(part.microbatches);
  return sizes;
}

}  // namespace millrace::runtime
