#include "actors/telemetry/log_line.hpp"
#include "runtime/units.hpp"

#include <cmath>

namespace millrace::actors {

std::string terms_text(const std::vector<runtime::StepLoss::Named>& terms) {
  std::string text;
  for (const auto& term : terms) text += fmt::format(" | {} {:.4f}", term.name, term.value);
  return text;
}

std::string LogLine::format(const StepRecord& record) {
  std::string score;
  if (losses_.size() >= 8) {
    double mean = 0, variance = 0;
    for (const double loss : losses_) mean += loss;
    mean /= static_cast<double>(losses_.size());
    for (const double loss : losses_) variance += (loss - mean) * (loss - mean);
    variance /= static_cast<double>(losses_.size());
    if (variance > 0) score = fmt::format(" ({:+.1f}z)", (record.loss - mean) / std::sqrt(variance));
  }
  losses_.push_back(record.loss);
  if (losses_.size() > 128) losses_.pop_front();

  // The first step builds kernels and touches memory for the first time, which would distort the estimate.
  ++seen_;
  smooth_seconds_ = seen_ <= 2 ? record.seconds : 0.9 * smooth_seconds_ + 0.1 * record.seconds;
  const double left = static_cast<double>(record.steps - record.step) * smooth_seconds_;
  const std::string utilisation = peak_flops_ > 0 ? fmt::format(" | {:.1f}% MFU", 100 * record.flops / record.seconds / peak_flops_) : "";
  const auto gibibytes = [](std::uint64_t bytes) { return static_cast<double>(bytes) * 0x1p-30; };
  const std::string device =
      record.device_total == 0 ? ""
                               : fmt::format(" | gpu {:.1f} of {:.1f} GiB", gibibytes(record.device_used), gibibytes(record.device_total));
  return fmt::format(
      "step {}/{} | loss {:.4f}{}{} | gnorm {:.2f} | lr {:.1e} | {} tok/s{} | {:.0f} ms | bubble {:.1f}% wait {:.1f}% data {:.1f}% | {}{} "
      "| "
      "skip {} | eta {}",
      record.step, record.steps, record.loss, score, terms_text(record.terms), record.gradient_norm, record.learning_rate,
      runtime::count_text(static_cast<double>(record.tokens) / record.seconds), utilisation, record.seconds * 1e3, 100 * record.bubble,
      100 * record.wait, 100 * record.data, runtime::bytes_text(record.resident_bytes), device, record.skipped,
      runtime::duration_text(left));
}

}  // namespace millrace::actors
