#include "actors/jobs/stepped_run.hpp"

#include <algorithm>
#include <utility>

#include "actors/jobs/data_content.hpp"
#include "actors/jobs/run_beginning.hpp"
#include "actors/jobs/start_source.hpp"
#include "actors/setup/token_compression.hpp"
#include "cluster/host/host_cores.hpp"
#include "cluster/host/log.hpp"
#include "kernels/base/check.hpp"
#include "runtime/optimizers/learning_rate.hpp"

namespace millrace::actors {
namespace {

std::int64_t threads_of(std::int64_t requested, const PipelinePlan& plan) {
  if (requested > 0) return requested;
  return std::max<std::int64_t>(1, cluster::usable_cores() / plan.ranks());
}

const runtime::CheckpointReader* either(const std::optional<runtime::CheckpointReader>& checkpoint,
                                        const runtime::CheckpointReader* later) {
  return checkpoint ? &*checkpoint : later;
}

}  // namespace

SteppedRun::SteppedRun(RunSettings settings, std::optional<runtime::CheckpointReader> checkpoint, const runtime::CheckpointReader* later)
    : settings_(std::move(settings)),
      plan_(make_plan(settings_.plan_request())),
      checkpoint_(std::move(checkpoint)),
      batches_(open_data(settings_.data, settings_.model.vocab_size,
                         either(checkpoint_, later) != nullptr && held_nothing_out(either(checkpoint_, later)->meta().identity)),
               batch_shape(settings_.train, settings_.data, settings_.model)),
      compression_(open_compression(settings_.model, compression_source(settings_.data, settings_.model_from))),
      threads_(static_cast<int>(threads_of(settings_.train.threads, plan_))) {
  MILLRACE_CHECK(kernels::device_type(kernels::device_kind(settings_.device)).facts().host_readable, ExitCode::config, "actors.stepped_run",
                 "device = \"{}\", but stepping through a run needs its memory on the CPU; expected device = \"cpu\"", settings_.device);
  runtime::learning_rate(settings_.train).validate();
  const auto* recorded = either(checkpoint_, later);
  if (recorded != nullptr) check(*recorded);
  if (checkpoint_ || settings_.train.start_from.empty()) return;
  source_ = open_start(settings_.train.start_from, recorded != nullptr ? recorded_start(*recorded) : "");
  check_start(*source_, plan_, settings_.train);
}

/// The data are hashed only if the checkpoint has a hash to compare with.
void SteppedRun::check(const runtime::CheckpointReader& checkpoint) const {
  auto identity = run_identity(settings_.identity.keys, plan_, batches_, compression_.get());
  const auto begun = resumed_start_identity(settings_.train.start_from, recorded_start(checkpoint));
  if (!begun.empty()) identity[start_key] = begun;
  check_identity(settings_.identity, checkpoint, identity, batches_.files(), settings_.directory);
  DataContent content{batches_.dataset().files, {}};
  if (checkpoint.meta().identity.contains(data_content_key)) content = hash_content(std::move(content.files), settings_.directory, true);
  const auto warning = check_content(checkpoint, content, settings_.directory);
  if (!warning.empty()) cluster::log_warning("{}", warning);
  for (const auto& note : changed_notes(checkpoint, arithmetic_notes(plan_.device, settings_.identity.build)))
    cluster::log_warning("{}", note);
}

StepperSetup SteppedRun::setup() const {
  StepperSetup setup;
  setup.train = settings_.train;
  setup.model_from = settings_.model_from;
  setup.overruled_model = settings_.overruled_model;
  setup.plan = &plan_;
  setup.batches = &batches_;
  setup.compression = compression_;
  setup.checkpoint = checkpoint_ ? &*checkpoint_ : nullptr;
  setup.source = source_ ? &*source_ : nullptr;
  setup.first_step = first_step();
  setup.threads = threads_;
  return setup;
}

}  // namespace millrace::actors
