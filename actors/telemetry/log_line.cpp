#include "actors/telemetry/log_line.hpp"
#include "runtime/units.hpp"

#include <cmath>

namespace millrace::actors {

std::string terms_text(const std::vector<runtime::StepLoss::Named>& terms) {
  std::string text;
  for (const auto& term : terms)
    text += term.metric() ? fmt::format(" | {} {:.2f}%", term.name, term.value) : fmt::format(" | {} {:.4f}", term.name, term.value);
  return text;
}

namespace {

std::string value_text(const StepMetric& metric, double value) {
  switch (metric.unit) {
    case MetricUnit::fraction:
      return fmt::format("{:.{}f}%", 100 * value, metric.decimals);
    case MetricUnit::bytes:
      return runtime::bytes_text(static_cast<std::uint64_t>(value));
    case MetricUnit::number:
      return fmt::format("{:.{}f}", value, metric.decimals);
  }
  return "";
}

/// " | bubble 8.9% wait 1.2% | 61.2 GiB": fractions that follow each other share a field.
std::string metrics_text(const MetricValues& values) {
  std::string text;
  const StepMetric* before = nullptr;
  for (std::size_t i = 0; i < step_metrics.size(); ++i) {
    const StepMetric& metric = step_metrics[i];
    if (!metric.on_line || !is_shown(metric, values)) continue;
    const bool joined = before != nullptr && before->unit == MetricUnit::fraction && metric.unit == MetricUnit::fraction;
    text += fmt::format("{}{}{}{}", joined ? " " : " | ", metric.line, metric.line.empty() ? "" : " ", value_text(metric, values[i]));
    before = &metric;
  }
  return text;
}

std::string rounds_text(const std::vector<runtime::ExpertLoad>& experts) {
  std::int64_t more = 0;
  for (const auto& load : experts) more += load.more_rounds;
  return more == 0 ? "" : fmt::format(" | {} more rounds", more);
}

}  // namespace

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
  return fmt::format("step {}/{} | loss {:.4f}{}{} | gnorm {:.2f} | lr {:.1e} | {} tok/s{} | {:.0f} ms{}{}{} | skip {} | eta {}",
                     record.step, record.steps, record.loss, score, terms_text(record.terms), record.gradient_norm, record.learning_rate,
                     runtime::count_text(static_cast<double>(record.tokens) / record.seconds), utilisation, record.seconds * 1e3,
                     metrics_text(record.metrics), device, rounds_text(record.experts), record.skipped, runtime::duration_text(left));
}

}  // namespace millrace::actors
