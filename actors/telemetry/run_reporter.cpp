#include "actors/telemetry/run_reporter.hpp"

#include <cmath>
#include <utility>

#include "actors/telemetry/step_fields.hpp"
#include "cluster/host/console.hpp"
#include "cluster/host/log.hpp"

namespace millrace::actors {

namespace {

constexpr std::int64_t default_interval = 10;  // steps
constexpr double longest_silence = 60;         // seconds

/// Bytes are whole numbers in the file.
runtime::MetricValue metric_value(std::size_t metric, double value) {
  if (step_metrics[metric].unit == MetricUnit::bytes) return static_cast<std::int64_t>(value);
  return value;
}

}  // namespace

/// Ends an open line on a terminal before other text is printed.
std::string RunReporter::closed_line() { return std::exchange(line_open_, false) ? "\n" : ""; }

void RunReporter::say(std::string_view text) {
  const std::lock_guard lock(mutex_);
  cluster::console().out.put(fmt::format("{}{}\n", closed_line(), text));
}

void RunReporter::warn(std::string_view text) {
  const std::lock_guard lock(mutex_);
  if (line_open_) cluster::console().out.put(closed_line());
  cluster::log_warning("{}", text);
}

void RunReporter::show_step(const StepRecord& record) {
  line_.add(record);
  const bool terminal = static_cast<bool>(log_.columns), first = !std::exchange(any_step_, true), last = record.step == record.steps;
  const std::int64_t every = log_.every > 0 ? log_.every : terminal ? 0 : default_interval;
  seconds_since_line_ += record.seconds;
  // A terminal shows every step anyway: lines stay only if a user has asked for some.
  const bool stays = every > 0 && (first || last || record.step % every == 0 || seconds_since_line_ >= longest_silence);
  if (!stays && !terminal) return;
  if (stays) seconds_since_line_ = 0;
  const std::string text = stays ? line_.aligned() : line_.within(log_.columns() - 1);  // no terminal wraps it
  const std::lock_guard lock(mutex_);
  put(text, stays);
}

/// Writes a line. On a terminal it takes the place of the open line, and the next one takes its own unless it stays. With the lock.
void RunReporter::put(std::string_view text, bool stays) {
  const bool terminal = static_cast<bool>(log_.columns);
  // On a terminal: returns to the first column and clears the line.
  cluster::console().out.put(fmt::format("{}{}{}", terminal ? "\r\033[K" : "", text, terminal && !stays ? "" : "\n"));
  line_open_ = terminal && !stays;
}

void RunReporter::step(const StepRecord& record) {
  if (!warned_of_rounds_)
    if (const std::string text = rounds_warning(record); !text.empty()) {
      warn(text);
      warned_of_rounds_ = true;
    }
  show_step(record);
  for (auto* listener : listeners_) listener->step(record);
  if (metrics_ != nullptr) record_step(record);
}

void RunReporter::record_step(const StepRecord& record) {
  runtime::MetricsRecord line;
  line.step = static_cast<std::uint64_t>(record.step);
  line.fields = {{"loss", runtime::ExactNumber{record.loss}}};
  for (const auto& term : record.terms) line.fields.emplace_back(term.name, runtime::ExactNumber{term.value});
  line.fields.insert(line.fields.end(), {{"gradient_norm", runtime::ExactNumber{record.gradient_norm}},
                                         {"learning_rate", record.learning_rate},
                                         {"tokens", record.tokens},
                                         {"targets", record.targets}});
  add_data(record.data, line);
  if (record.max_logits) line.fields.emplace_back("max_logits", *record.max_logits);
  if (record.skipped_this) line.fields.emplace_back("step_skipped", static_cast<std::int64_t>(*record.skipped_this));
  add_fields(record, line);
  line.fields.insert(line.fields.end(), {// Wall times and derived values; all fields before them are the same in every run and layout.
                                         {"seconds", record.seconds},
                                         {"tokens_per_second", static_cast<double>(record.tokens) / record.seconds},
                                         {"flops_per_second", record.flops / record.seconds}});
  if (const auto utilization = flops_utilization(record, log_.peak_flops)) line.fields.emplace_back("flops_utilization", *utilization);
  for (std::size_t i = 0; i < step_metrics.size(); ++i)
    if (is_shown(step_metrics[i], record.metrics))
      line.fields.emplace_back(std::string(step_metrics[i].name), metric_value(i, record.metrics[i]));
  add_rounds(record, line);
  if (record.device_total > 0) line.fields.emplace_back("device_bytes", static_cast<std::int64_t>(record.device_used));
  metrics_->append(line);
}

void RunReporter::evaluation_begins(std::int64_t step, std::int64_t microbatches) {
  const std::lock_guard lock(mutex_);
  evaluated_step_ = step;
  progress_.begin(microbatches, log_.now());
}

void RunReporter::evaluating(std::int64_t done) {
  const std::lock_guard lock(mutex_);
  if (const auto text = progress_.show(done, log_.now())) put(fmt::format("evaluation after step {} | {}", evaluated_step_, *text), false);
}

void RunReporter::evaluation(const EvaluationRecord& record, bool recorded) {
  evaluation_begins(record.step, 0);
  const double loss = record.loss;
  const auto unit = record.in_nats ? fmt::format(" nats per token ({:.4f} bits, perplexity {:.2f})", loss / std::log(2.0), std::exp(loss))
                                   : std::string();
  say(fmt::format("evaluation after step {} | held-out loss {:.4f}{} on {} targets{}", record.step, loss, unit, record.targets,
                  terms_text(record.terms)));
  for (auto* listener : listeners_) listener->evaluation(record, recorded);
  if (metrics_ == nullptr || recorded) return;
  runtime::MetricsRecord line;
  line.step = static_cast<std::uint64_t>(record.step);
  line.fields = {{"evaluation_loss", runtime::ExactNumber{loss}}, {"evaluation_targets", record.targets}};
  for (const auto& term : record.terms) line.fields.emplace_back("evaluation_" + term.name, runtime::ExactNumber{term.value});
  metrics_->append(line);
}

void RunReporter::checkpoint(const CheckpointCommitted& result) {
  const bool committed = result.error.empty();
  if (committed) say(fmt::format("checkpoint of step {} is committed", result.step));
  if (!committed) warn(fmt::format("no checkpoint of step {}: {}", result.step, result.error));
  std::set<runtime::CheckpointWarning::Cause> causes;
  for (const auto& warning : result.warnings) {
    causes.insert(warning.cause);
    if (warned_.insert(warning.cause).second)
      warn(fmt::format("checkpoint of step {}: {}; the run continues, and this is not repeated while the problem lasts", result.step,
                       warning.text));
  }
  if (committed) warned_ = causes;  // an attempt that failed early says nothing about the other causes
  for (auto* listener : listeners_) listener->checkpoint(result);
}

void RunReporter::sample(std::string_view text) {
  say("-- sample ----------------------------------------------------------------------");
  say(text);
  say("--------------------------------------------------------------------------------");
}

}  // namespace millrace::actors
