#pragma once

#include <cstdint>
#include <vector>

#include "runtime/optimizers/run_state.hpp"

namespace millrace::runtime {

/// Finds steps whose loss or gradient norm exceeds those of the last `window` steps by more than `factor` standard deviations (MaxText's
/// skip_step_on_spikes; OLMo, arXiv 2501.00656, section 3.3). The numbers of a spike are remembered as any others are. No step is a spike
/// before max(2, window / 2) steps have been seen. Pure: a function of what was seen, in order.
class SpikeDetector {
 public:
  SpikeDetector(std::int64_t window, double factor);

  /// Whether this step is a spike among those seen before, and remembers it. Loss and norm are rounded to fp32 first.
  [[nodiscard]] bool see(double loss, double norm);

  /// Two rings of the newest numbers, where step s has the place s modulo the window, and the number of steps seen.
  [[nodiscard]] RunState state() const;
  /// Throws Error(checkpoint) for a state that is missing, or of another window.
  void restore(const RunState& state);

 private:
  [[nodiscard]] bool exceeds(const std::vector<float>& ring, double value) const;
  double factor_;
  std::vector<float> losses_, norms_;
  std::int64_t seen_ = 0;
};

}  // namespace millrace::runtime
