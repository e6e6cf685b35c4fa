#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace millrace::actors {

/// How the ranks' values of a metric become the step's. mean: over all ranks. time_share: values are nanoseconds; their sum over the ranks
/// divided by the sum of the ranks' step times, 0 … 1.
enum class Combine : std::uint8_t { sum, max, mean, first, time_share };

/// How a value is written: 0.089 as "8.9%"; 2^30 as "1.0 GiB"; a plain number with its decimals.
enum class MetricUnit : std::uint8_t { fraction, bytes, number };

/// One metric that every rank measures in every step. An empty name of an output: it is not shown there.
struct StepMetric {
  std::string_view name;  // its field in metrics.jsonl and in last_step of /status
  MetricUnit unit = MetricUnit::number;
  Combine combine = Combine::sum;
  std::string_view line = {};         // text before the value on the step's line; if empty, the line shows the value alone
  bool on_line = true;                // whether the line shows it
  std::string_view tile = {};         // the title of its tile on the live page
  std::string_view tensorboard = {};  // its name in TensorBoard
  std::string_view prometheus = {};   // its family in /metrics, with `help`
  std::string_view help = {};
  std::string_view shown_with = {};  // a metric; this one is shown only in steps in which that one is not 0
  int decimals = 1;                  // decimals of the printed percentage or number
};

/// All of them, in the order in which they are shown. A metric is a line here and a value in actors/rank/rank_metrics.cpp.
inline constexpr std::array step_metrics = {
    StepMetric{.name = "bubble",
               .unit = MetricUnit::fraction,
               .combine = Combine::time_share,
               .line = "bubble",
               .tile = "bubble",
               .tensorboard = "pipeline/bubble"},
    StepMetric{
        .name = "wait", .unit = MetricUnit::fraction, .combine = Combine::time_share, .line = "wait", .tensorboard = "pipeline/wait"},
    StepMetric{.name = "exchange",
               .unit = MetricUnit::fraction,
               .combine = Combine::time_share,
               .line = "exchange",
               .tensorboard = "pipeline/exchange",
               .shown_with = "exchange_bytes"},
    StepMetric{.name = "reduction",
               .unit = MetricUnit::fraction,
               .combine = Combine::time_share,
               .line = "reduction",
               .tensorboard = "pipeline/reduction",
               .shown_with = "reduction_bytes"},
    StepMetric{
        .name = "data", .unit = MetricUnit::fraction, .combine = Combine::time_share, .line = "data", .tensorboard = "pipeline/data"},
    StepMetric{.name = "exchange_bytes",
               .unit = MetricUnit::bytes,
               .combine = Combine::sum,
               .on_line = false,
               .tensorboard = "pipeline/exchange_bytes",
               .prometheus = "millrace_exchange_bytes",
               .help = "Bytes that ranks which share experts sent to each other in the last step.",
               .shown_with = "exchange_bytes"},
    StepMetric{
        .name = "reduction_bytes",
        .unit = MetricUnit::bytes,
        .combine = Combine::sum,
        .on_line = false,
        .tensorboard = "pipeline/reduction_bytes",
        .prometheus = "millrace_reduction_bytes",
        .help = "Bytes of gradient sums and parameters that ranks which hold the same weights sent to each other since the last step.",
        .shown_with = "reduction_bytes"},
    StepMetric{.name = "resident_bytes",
               .unit = MetricUnit::bytes,
               .combine = Combine::max,
               .tile = "memory",
               .prometheus = "millrace_resident_memory_bytes",
               .help = "Peak resident memory of the process with the largest peak."},
};

/// The step's value from those of all ranks. `wall`: the sum of the ranks' step times in nanoseconds; a time_share of no time is 0.
[[nodiscard]] inline double combine(Combine how, std::span<const double> values, double wall) {
  double sum = 0;
  for (const double value : values) sum += value;
  switch (how) {
    case Combine::sum:
      return sum;
    case Combine::max:
      return *std::max_element(values.begin(), values.end());
    case Combine::mean:
      return sum / static_cast<double>(values.size());
    case Combine::first:
      return values.front();
    case Combine::time_share:
      return wall > 0 ? sum / wall : 0.0;
  }
  return 0;
}

/// One value per metric, in the table's order.
using MetricValues = std::array<double, step_metrics.size()>;

/// Whether a step with these values shows the metric.
[[nodiscard]] inline bool is_shown(const StepMetric& metric, const MetricValues& values) {
  if (metric.shown_with.empty()) return true;
  for (std::size_t i = 0; i < step_metrics.size(); ++i)
    if (step_metrics[i].name == metric.shown_with) return values[i] != 0;
  return false;
}

/// The metric's place in the table. A name that is not there does not compile.
consteval std::size_t metric_index(std::string_view name) {
  for (std::size_t i = 0; i < step_metrics.size(); ++i)
    if (step_metrics[i].name == name) return i;
  throw "no such metric in the table";
}

}  // namespace millrace::actors
