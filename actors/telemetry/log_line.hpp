#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "actors/coordinator.hpp"

namespace millrace::actors {

/// " | lm_loss 3.4821 | moe_lb_loss 0.0120"; empty without terms.
[[nodiscard]] std::string terms_text(const std::vector<runtime::StepLoss::Named>& terms);

/// The line that a step prints, the same for every layout:
///   step 120/5000 | loss 3.4821 (+0.3z) | gnorm 0.91 | lr 3.0e-04 | 182.4k tok/s | 41.7% MFU | 1437 ms | bubble 8.9% wait 1.2% data 0.2%
///   | 61.2 GiB | gpu 91.2 of 139.8 GiB | skip 0 | eta 3h12m
/// z is the loss's deviation from the mean of the last 128 steps, in their standard deviations. A loss of several terms is followed by
/// each of them: "| loss 3.4941 (+0.3z) | lm_loss 3.4821 | moe_lb_loss 0.0120 |".
class LogLine {
 public:
  /// peak_flops: the measured matmul peak of the job's cores; 0: unknown, and MFU is omitted.
  explicit LogLine(double peak_flops) : peak_flops_(peak_flops) {}
  [[nodiscard]] std::string format(const StepRecord& record);

 private:
  double peak_flops_;
  std::deque<double> losses_;
  double smooth_seconds_ = 0;
  std::int64_t seen_ = 0;
};

}  // namespace millrace::actors
