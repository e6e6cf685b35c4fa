#include "actors/telemetry/tensorboard_log.hpp"

#include <chrono>

#include "actors/telemetry/step_fields.hpp"

namespace millrace::actors {
namespace {

constexpr std::int64_t histogram_every = 10;  // steps

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

}  // namespace

TensorboardLog::TensorboardLog(const std::string& run_directory, std::int64_t step, double peak_flops)
    : file_(runtime::join_path(run_directory, "tensorboard"), step + 1, now()), peak_flops_(peak_flops) {}

void TensorboardLog::step(const StepRecord& record) {
  runtime::EventScalars scalars = {{"train/loss", record.loss}};
  for (const auto& term : record.terms) scalars.emplace_back("train/" + term.name, term.value);
  scalars.insert(scalars.end(), {{"train/gradient_norm", record.gradient_norm},
                                 {"train/learning_rate", record.learning_rate},
                                 {"speed/tokens_per_second", static_cast<double>(record.tokens) / record.seconds},
                                 {"speed/step_seconds", record.seconds}});
  if (const auto utilization = flops_utilization(record, peak_flops_)) scalars.emplace_back("speed/flops_utilization", *utilization);
  if (record.max_logits) scalars.emplace_back("train/max_logits", *record.max_logits);
  if (record.skipped_this) scalars.emplace_back("train/step_skipped", *record.skipped_this ? 1.0 : 0.0);
  for (std::size_t i = 0; i < step_metrics.size(); ++i)
    if (!step_metrics[i].tensorboard.empty() && is_shown(step_metrics[i], record.metrics))
      scalars.emplace_back(step_metrics[i].tensorboard, record.metrics[i]);
  add_scalars(record, scalars);
  // TensorBoard keeps a few hundred histograms of a tag at most, and one has a number for every expert.
  const bool histograms = record.step == 1 || record.step % histogram_every == 0 || record.step == record.steps;
  file_.append(record.step, now(), scalars, histograms ? expert_histograms(record) : runtime::EventHistograms());
}

void TensorboardLog::evaluation(const EvaluationRecord& record, bool recorded) {
  if (recorded) return;
  runtime::EventScalars scalars = {{"evaluate/loss", record.loss}};
  for (const auto& term : record.terms) scalars.emplace_back("evaluate/" + term.name, term.value);
  file_.append(record.step, now(), scalars);
}

}  // namespace millrace::actors
