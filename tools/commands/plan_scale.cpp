// millrace plan --replicas: from one pipeline to thousands of ranks.

#include "tools/commands/plan_scale.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "actors/telemetry/log_line.hpp"
#include "kernels/base/check.hpp"
#include "runtime/split.hpp"

namespace millrace::tools {

std::vector<Option> scale_options() {
  return {{.name = "replicas", .value = "1,16,256", .help = "Predict the step of this many data-parallel replicas of the plan."},
          {.name = "spread", .value = "X", .help = "With --replicas: relative standard deviation of the ranks' speeds. Default: 0."},
          {.name = "jitter", .value = "X", .help = "With --replicas: relative standard deviation of a rank's actions. Default: 0."},
          {.name = "reduce-rate",
           .value = "BYTES_PER_SECOND",
           .help = "With --replicas: bandwidth of the rings that sum gradients. Default: unlimited."},
          {.name = "reduce-latency", .value = "MS", .help = "With --reduce-rate: latency of those rings. Default: 0."},
          {.name = "optimizer",
           .value = "MS",
           .help = "With --replicas: time of the optimizer per step. Default: with --measure the measured one, else 0."},
          {.name = "mtbf-hours", .value = "H", .help = "With --replicas: mean time between failures of one rank. Default: no failures."},
          {.name = "snapshot-seconds", .value = "S", .help = "With --mtbf-hours: time that a snapshot takes. Default: 0."},
          {.name = "restart-minutes", .value = "M", .help = "With --mtbf-hours: time that a restart takes. Default: 0."},
          {.name = "error", .value = "PERCENT", .help = "Error of earlier predictions; prints a band."},
          {.name = "error-ranks", .value = "P", .help = "With --error: ranks of those predictions. Default: the plan's."},
          {.name = "error-growth", .value = "PERCENT", .help = "With --error: more error per doubling of ranks. Default: 0."}};
}

namespace {

constexpr const char* plan_scale_component = "millrace plan";
constexpr long max_replicas = 1L << 24;

/// The value of this option, which must be from `least` to `most`; 0 if it is not given.
double number(const Arguments& arguments, const char* option, double least, double most, const char* expected) {
  if (!arguments.given(option)) return 0;
  const auto text = arguments.text(option);
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  MILLRACE_CHECK(!text.empty() && *end == 0 && std::isfinite(value) && value >= least && value <= most, ExitCode::usage,
                 plan_scale_component, "--{} {}, expected {}", option, text, expected);
  return value;
}

std::vector<int> replicas_of(const std::string& text) {
  std::vector<int> replicas;
  for (const auto& word : runtime::split(text, ',')) {
    char* end = nullptr;
    const long value = std::strtol(word.c_str(), &end, 10);
    MILLRACE_CHECK(!word.empty() && *end == 0 && value >= 1 && value <= max_replicas, ExitCode::usage, plan_scale_component,
                   "--replicas has \"{}\", expected whole numbers from 1 to {}, such as 1,16,256", word, max_replicas);
    replicas.push_back(static_cast<int>(value));
  }
  return replicas;
}

void check_together(const Arguments& arguments) {
  for (const auto& [option, value, help, fallback, choices, offer] : scale_options())
    MILLRACE_CHECK(!arguments.given(option) || option.starts_with("error") || arguments.given("replicas"), ExitCode::usage,
                   plan_scale_component, "--{} without --replicas, which it requires", option);
  const auto needs = [&](const char* option, const char* other) {
    MILLRACE_CHECK(!arguments.given(option) || arguments.given(other), ExitCode::usage, plan_scale_component,
                   "--{} without --{}, which it requires", option, other);
  };
  needs("reduce-latency", "reduce-rate");
  needs("restart-minutes", "mtbf-hours");
  needs("snapshot-seconds", "mtbf-hours");
  needs("error-growth", "error");
  needs("error-ranks", "error");
}

/// The pipeline that actors::make_plan would create for one copy in a run with this plan.
actors::PipelinePlan pipeline_of(actors::PlanRequest request, const actors::PlannedRun& plan) {
  request.train.microbatches /= request.mesh.copies();
  request.train.accumulators = request.train.expert_accumulators = 1;
  request.train.ramp_microbatches = 0;
  request.mesh = {};
  request.pipeline.schedule = plan.schedule;
  request.pipeline.chunks = plan.chunks;
  request.pipeline.layout = plan.layout;
  request.pipeline.plan.clear();
  request.pipeline.warmup = -1;
  request.pipeline.group = 0;
  request.rematerialize = {};
  return actors::make_plan(request);
}

/// Whether no earlier stage of the rank has a use of the parameter.
bool first_on_rank(const actors::PipelinePlan& plan, int stage, const layers::ParameterSpec& parameter) {
  if (parameter.use == 0) return true;
  const auto& placement = plan.schedule.placement;
  for (const runtime::StageId other : placement.stages_of(placement.rank_of(runtime::StageId(stage)))) {
    if (other.value >= stage) break;
    for (const auto& each : layers::parameters(plan.model, plan.layout[other.index()]))
      if (each.name == parameter.name) return false;
  }
  return true;
}

/// Bytes of the fp32 gradient sums, by stage. A table of which several uses share a rank is reduced once.
std::vector<double> gradient_bytes(const actors::PipelinePlan& plan) {
  std::vector<double> bytes;
  for (int stage = 0; stage < plan.stages(); ++stage) {
    double elements = 0;
    for (const auto& parameter : layers::parameters(plan.model, plan.layout[static_cast<std::size_t>(stage)]))
      if (first_on_rank(plan, stage, parameter)) elements += static_cast<double>(parameter.shape.elements());
    bytes.push_back(elements * sizeof(float));
  }
  return bytes;
}

std::string interval(double milliseconds) {
  const double seconds = milliseconds / 1000;
  if (seconds < 120) return fmt::format("{:.1f} s", seconds);
  return seconds < 7200 ? fmt::format("{:.1f} min", seconds / 60) : fmt::format("{:.1f} h", seconds / 3600);
}

void print_head(const ScaleRequest& scale, const runtime::Extrapolation& result) {
  fmt::print("\nreplicas  of this plan, {:.2f} ms each without noise", result.alone);
  if (result.samples > 1)
    fmt::print("; of {} sampled {:.2f} ± {:.2f} ms, by slow ranks alone {:.2f} ± {:.2f} ms", result.samples, result.mean, result.deviation,
               result.persistent_mean, result.persistent_deviation);
  fmt::print("\n          {}",
             scale.reduces ? "their gradients are summed in rings" : "without --reduce-rate the sum of their gradients is free");
  if (scale.error)
    fmt::print("; predictions are off by {:g} % at {:g} ranks, {:g} % more with each doubling\n", 100 * scale.model.error.error,
               scale.model.error.ranks, 100 * scale.model.error.growth);
  else
    fmt::print("; without --error no band is shown, since the error of predictions is not known\n");
  fmt::print("          this predicts, it does not run: train runs mesh.data copies\n");
  fmt::print("\n{:>8} {:>9} {:>10} {:>22} {:>10} {:>8} {:>9} {:>10} {:>8} {:>14} {:>10}\n", "replicas", "ranks", "step ms", "band ms",
             "slow ranks", "jitter", "reduction", "snapshots", "goodput", "tokens/s", "efficiency");
}

void print_point(const ScaleRequest& scale, const runtime::ScalePoint& point, double tokens) {
  const bool fails = scale.model.failures.rank_interval > 0;
  fmt::print("{:>8} {:>9} {:>10.2f} {:>22} {:>10.2f} {:>8.2f} {:>9.2f} {:>10} {:>7.1f}% {:>14.1f} {:>9.1f}%\n", point.replicas, point.ranks,
             point.step, scale.error ? fmt::format("{:.2f} to {:.2f}", point.low, point.high) : "-", point.persistent, point.transient,
             point.exposed, fails ? interval(point.goodput.snapshot_interval) : "-", 100 * point.goodput.useful,
             1e3 * tokens * point.replicas / point.step * point.goodput.useful, 100 * point.efficiency);
}

}  // namespace

std::optional<runtime::PredictionError> read_error(const Arguments& arguments) {
  check_together(arguments);
  if (!arguments.given("error")) return std::nullopt;
  return runtime::PredictionError{number(arguments, "error", 0, 100, "percent from 0 to 100") / 100,
                                  number(arguments, "error-growth", 0, 100, "percent from 0 to 100") / 100,
                                  number(arguments, "error-ranks", 1, std::numeric_limits<double>::max(), "a number of ranks, 1 or more")};
}

std::optional<ScaleRequest> read_scale(const Arguments& arguments) {
  check_together(arguments);
  if (!arguments.given("replicas")) return std::nullopt;
  MILLRACE_CHECK(arguments.given("measure") || arguments.given("costs"), ExitCode::usage, plan_scale_component,
                 "--replicas goes with times: --measure or --costs");
  constexpr double endless = std::numeric_limits<double>::max();
  constexpr const char* part = "a number from 0 to 1, such as 0.02 for 2 %";
  constexpr const char* any = "a number of 0 or more";
  constexpr const char* positive = "a number above 0";
  constexpr double least = std::numeric_limits<double>::min();
  ScaleRequest scale;
  auto& model = scale.model;
  scale.replicas = replicas_of(arguments.text("replicas"));
  model.spread = number(arguments, "spread", 0, 1, part);
  scale.jitter = number(arguments, "jitter", 0, 1, part);
  scale.reduces = arguments.given("reduce-rate");
  if (scale.reduces) model.reduction.bytes_per_unit = number(arguments, "reduce-rate", least, endless, positive) / 1000;
  model.reduction.latency = number(arguments, "reduce-latency", 0, endless, any);
  model.optimizer = number(arguments, "optimizer", 0, endless, any);
  model.failures = {3.6e6 * number(arguments, "mtbf-hours", least, 1e12, positive),
                    1e3 * number(arguments, "snapshot-seconds", 0, 1e12, any), 6e4 * number(arguments, "restart-minutes", 0, 1e12, any)};
  const auto error = read_error(arguments);
  scale.error = error.has_value();
  scale.optimizer = arguments.given("optimizer");
  model.error = error.value_or(runtime::PredictionError{.ranks = 0});
  return scale;
}

void print_scale(ScaleRequest scale, const actors::PlanRequest& request, const actors::PlannedRun& plan) {
  const auto pipeline = pipeline_of(request, plan);
  auto costs = plan.prices;
  costs.noise.jitter = scale.jitter;
  if (scale.reduces) scale.model.reduction.bytes = gradient_bytes(pipeline);
  if (!scale.optimizer) scale.model.optimizer = plan.update;
  if (scale.model.error.ranks == 0) scale.model.error.ranks = pipeline.ranks();
  const auto result = runtime::extrapolate(pipeline.schedule, costs, scale.model, scale.replicas);
  print_head(scale, result);
  const auto& train = request.train;
  for (const auto& point : result.points)
    print_point(scale, point, static_cast<double>(train.microbatches / request.mesh.copies() * train.batch * train.sequence));
  const auto& last = result.points.back();
  if (last.exposed > 0)
    fmt::print("of {} replicas, stage {} on rank {} is summed last, {:.2f} ms after the last action\n", last.replicas, last.exposed_stage,
               last.exposed_rank, last.exposed);
}

}  // namespace millrace::tools
