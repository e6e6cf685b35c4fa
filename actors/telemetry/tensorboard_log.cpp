#include "actors/telemetry/tensorboard_log.hpp"

#include <chrono>

namespace millrace::actors {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

}  // namespace

TensorboardLog::TensorboardLog(const std::string& run_directory, std::int64_t step)
    : file_(runtime::join_path(run_directory, "tensorboard"), step + 1, now()) {}

void TensorboardLog::step(const StepRecord& record) {
  file_.append(record.step, now(),
               {{"train/loss", record.loss},
                {"train/gradient_norm", record.gradient_norm},
                {"train/learning_rate", record.learning_rate},
                {"speed/tokens_per_second", static_cast<double>(record.tokens) / record.seconds},
                {"speed/step_seconds", record.seconds},
                {"pipeline/bubble", record.bubble},
                {"pipeline/wait", record.wait},
                {"pipeline/data", record.data}});
}

void TensorboardLog::evaluation(std::int64_t step, double loss, bool recorded) {
  if (!recorded) file_.append(step, now(), {{"evaluate/loss", loss}});
}

}  // namespace millrace::actors
