#include "actors/telemetry/log_line.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "actors/telemetry/step_fields.hpp"
#include "runtime/units.hpp"

namespace millrace::actors {

std::string terms_text(const std::vector<runtime::StepLoss::Named>& terms) {
  std::string text;
  for (const auto& term : terms)
    text += term.metric() ? fmt::format(" | {} {:.2f}%", term.name, term.value) : fmt::format(" | {} {:.4f}", term.name, term.value);
  return text;
}

namespace {

constexpr std::size_t score_window = 128;      // losses whose mean and deviation a loss is compared with
constexpr std::size_t losses_for_a_score = 8;  // fewer have no meaningful deviation

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

/// "+0.3z": the loss's deviation from those before it; empty while there are too few, or all are the same.
std::string score_text(const std::deque<double>& losses, double loss) {
  if (losses.size() < losses_for_a_score) return "";
  double mean = 0, variance = 0;
  for (const double each : losses) mean += each;
  mean /= static_cast<double>(losses.size());
  for (const double each : losses) variance += (each - mean) * (each - mean);
  variance /= static_cast<double>(losses.size());
  return variance > 0 ? fmt::format("({:+.1f}z)", (loss - mean) / std::sqrt(variance)) : "";
}

}  // namespace

std::string LogLine::Field::text(std::size_t width) const {
  const std::string padding(width - std::min(width, value.size()), ' ');
  return fmt::format("{}{}{}{}{}{}{}", name, name.empty() ? "" : " ", left ? "" : padding, value, left ? padding : "",
                     unit.empty() ? "" : " ", unit);
}

void LogLine::add_unless_zero(Field field, bool zero) {
  const std::string key = field.name + field.unit;
  if (!zero) not_zero_.insert(key);
  if (not_zero_.contains(key)) fields_.push_back(std::move(field));
}

/// "bubble 8.9% wait 1.2%": fractions that follow each other stand together.
void LogLine::add_metrics(const StepRecord& record) {
  bool fraction_before = false;
  for (std::size_t i = 0; i < step_metrics.size(); ++i) {
    const StepMetric& metric = step_metrics[i];
    if (!metric.on_line || metric.unit == MetricUnit::bytes || !is_shown(metric, record.metrics)) continue;
    const std::string value = value_text(metric, record.metrics[i]);
    const bool fraction = metric.unit == MetricUnit::fraction, zero = value.find_first_of("123456789") == std::string::npos;
    const std::size_t before = fields_.size();
    add_unless_zero(
        {.name = std::string(metric.line), .value = value, .importance = 8, .joined = fraction && fraction_before, .min_width = 5}, zero);
    if (fields_.size() > before) fraction_before = fraction;
  }
}

void LogLine::add(const StepRecord& record) {
  fields_.clear();
  fields_.push_back({.name = "step",
                     .value = fmt::format("{}/{}", record.step, record.steps),
                     .left = true,
                     .min_width = fmt::formatted_size("{0}/{0}", record.steps)});
  fields_.push_back({.name = "loss", .value = fmt::format("{:.4f}", record.loss), .importance = 1});
  if (auto score = score_text(losses_, record.loss); !score.empty())
    fields_.push_back({.name = "", .value = std::move(score), .importance = 5, .joined = true});
  losses_.push_back(record.loss);
  if (losses_.size() > score_window) losses_.pop_front();
  for (const auto& term : record.terms)
    fields_.push_back({.name = term.name,
                       .value = term.metric() ? fmt::format("{:.2f}%", term.value) : fmt::format("{:.4f}", term.value),
                       .importance = 7});
  fields_.push_back({.name = "gnorm", .value = fmt::format("{:.2f}", record.gradient_norm), .importance = 4});
  if (shows_rate_) fields_.push_back({.name = "lr", .value = fmt::format("{:.1e}", record.learning_rate), .importance = 6});
  fields_.push_back({.name = "",
                     .value = runtime::count_text(static_cast<double>(record.tokens) / record.seconds),
                     .unit = "tok/s",
                     .importance = 3,
                     .min_width = 6});
  if (const auto utilization = flops_utilization(record, peak_flops_))
    fields_.push_back({.name = "", .value = fmt::format("{:.1f}%", 100 * *utilization), .unit = "MFU", .importance = 5, .min_width = 5});
  fields_.push_back({.name = "", .value = fmt::format("{:.0f}", record.seconds * 1e3), .unit = "ms", .importance = 6});
  add_metrics(record);
  std::int64_t more_rounds = 0;
  for (const auto& load : record.experts) more_rounds += load.more_rounds;
  add_unless_zero({.name = "", .value = fmt::format("{}", more_rounds), .unit = "more rounds", .importance = 9}, more_rounds == 0);
  add_unless_zero({.name = "skip", .value = fmt::format("{}", record.skipped), .importance = 7}, record.skipped == 0);

  // The first step builds kernels and touches memory for the first time, which would distort the estimate.
  ++seen_;
  smooth_seconds_ = seen_ <= 2 ? record.seconds : 0.9 * smooth_seconds_ + 0.1 * record.seconds;
  const double left = static_cast<double>(record.steps - record.step) * smooth_seconds_;
  if (const auto& sources = record.data.sources; !sources.empty()) {
    // A mixture shows the least and the most read of its sources.
    const auto [least, most] = std::ranges::minmax(sources, {}, &runtime::SourceProgress::epochs);
    const bool one = sources.size() == 1;
    fields_.push_back({.name = one ? "epoch" : "epochs",
                       .value = one ? fmt::format("{:.2f}", least.epochs) : fmt::format("{:.2f}-{:.2f}", least.epochs, most.epochs),
                       .importance = 8});
    fields_.push_back({.name = "",
                       .value = runtime::count_text(static_cast<double>(record.data.tokens)),
                       .unit = "tokens",
                       .importance = 9,
                       .min_width = 6});
  }
  fields_.push_back({.name = "eta", .value = runtime::duration_text(left), .importance = 2, .left = true});

  for (std::size_t i = 0; i < step_metrics.size(); ++i)
    if (step_metrics[i].on_line && step_metrics[i].unit == MetricUnit::bytes && is_shown(step_metrics[i], record.metrics))
      fields_.push_back({.name = std::string(step_metrics[i].line),
                         .value = value_text(step_metrics[i], record.metrics[i]),
                         .importance = 9,
                         .only_changes = true});
  if (record.device_total > 0) {
    const auto gibibytes = [](std::uint64_t bytes) { return static_cast<double>(bytes) * 0x1p-30; };
    fields_.push_back({.name = "gpu",
                       .value = fmt::format("{:.1f} of {:.1f} GiB", gibibytes(record.device_used), gibibytes(record.device_total)),
                       .importance = 9,
                       .only_changes = true});
  }
}

std::string LogLine::aligned() {
  std::string line;
  for (const Field& field : fields_) {
    std::size_t width = 0;
    if (field.only_changes) {
      if (std::exchange(shown_[field.name], field.value) == field.value) continue;
    } else {
      std::size_t& widest = widths_[field.name + "|" + field.unit];
      width = widest = std::max({widest, field.min_width, field.value.size()});
    }
    line += fmt::format("{}{}", line.empty() ? "" : field.joined ? " " : " | ", field.text(width));
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::string LogLine::within(std::size_t columns) const {
  int largest = 0;
  for (const Field& field : fields_) largest = std::max(largest, field.importance);
  for (;; --largest) {
    std::string line;
    for (const Field& field : fields_)
      if (field.importance <= largest) line += fmt::format("{}{}", line.empty() ? "" : field.joined ? " " : " | ", field.text(0));
    if (line.size() <= columns) return line;
    if (largest == 0) return line.substr(0, columns);
  }
}

}  // namespace millrace::actors
