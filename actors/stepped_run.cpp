#include "actors/stepped_run.hpp"

#include <algorithm>
#include <utility>

#include "cluster/affinity.hpp"
#include "kernels/base/check.hpp"

namespace millrace::actors {
namespace {

std::int64_t threads_of(const RunSettings& settings, const PipelinePlan& plan, const runtime::CheckpointReader* checkpoint,
                        std::int64_t noted) {
  if (settings.train.threads > 0) return settings.train.threads;
  if (checkpoint != nullptr && noted_threads(*checkpoint) > 0) return noted_threads(*checkpoint);
  if (noted > 0) return noted;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(cluster::available_cores().size()) / plan.ranks());
}

}  // namespace

SteppedRun::SteppedRun(RunSettings settings, std::optional<runtime::CheckpointReader> checkpoint, std::int64_t noted)
    : settings_(std::move(settings)),
      plan_(make_plan(settings_.plan_request())),
      batches_(runtime::open_dataset(settings_.data, settings_.model.vocab_size), batch_shape(settings_)),
      checkpoint_(std::move(checkpoint)),
      threads_(static_cast<int>(threads_of(settings_, plan_, checkpoint_ ? &*checkpoint_ : nullptr, noted))) {
  MILLRACE_CHECK(kernels::device_kind(settings_.device) == kernels::DeviceKind::cpu, ExitCode::config, "actors.stepped_run",
                 "device = \"{}\", but what steps through a run looks at its memory on the CPU; wanted device = \"cpu\"", settings_.device);
  learning_rate(settings_.train).validate();
  if (checkpoint_)
    settings_.check_identity(checkpoint_->meta().identity, run_identity(settings_, plan_, batches_, threads_), checkpoint_->folder());
}

StepperSetup SteppedRun::setup() const {
  StepperSetup setup;
  setup.settings = &settings_;
  setup.plan = &plan_;
  setup.batches = &batches_;
  setup.checkpoint = checkpoint_ ? &*checkpoint_ : nullptr;
  setup.first_step = first_step();
  setup.threads = threads_;
  return setup;
}

}  // namespace millrace::actors
