#include "actors/telemetry/telemetry.hpp"

#include <chrono>

#include "actors/pipeline.hpp"
#include "actors/setup/run_signals.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "kernels/base/without_component.hpp"
#include "runtime/io/file_system.hpp"

namespace millrace::actors {
namespace {

LiveRun live_run(const TelemetrySetup& setup, const PipelinePlan& plan, const Session& session) {
  LiveRun run;
  run.directory = setup.directory;
  run.model = fmt::format("{}, {}, hidden {}, vocabulary {}", layers::family_title(plan.model), counted(plan.model.layers, "layer"),
                          plan.model.hidden_size, plan.model.vocab_size);
  run.dtype = runtime::dtype_text(plan.compute);
  run.schedule = plan.schedule.name;
  run.layout = plan.layout_text();
  run.processes = session.topology().processes();
  run.ranks = plan.ranks();
  run.copies = plan.mesh.data;
  run.first_step = setup.first_step;
  run.steps = setup.steps;
  run.microbatches = plan.schedule.microbatches;
  run.peak_flops = setup.log.peak_flops;
  return run;
}

constexpr const char* telemetry_component = "actors.telemetry";
constexpr const char* no_place = "run.directory is empty, expected a folder for profiles";

/// Handles POST /profile. `profile` may be null.
cluster::StatusPage profile_page(LiveProfile* profile, const std::string& directory) {
  cluster::StatusPage page{"/profile", "text/plain; charset=utf-8", [profile, directory] {
                             MILLRACE_CHECK(profile != nullptr, ExitCode::config, telemetry_component, "{}", no_place);
                             profile->request();
                             return fmt::format("a profile of the last steps goes to {}/profiles\n", directory);
                           }};
  page.order = true;
  return page;
}

}  // namespace

std::unique_ptr<cluster::StatusServer> status_server(const Session& session, const cluster::StatusConfig& config) {
  if (!session.leads() || config.port < 0) return nullptr;
  return std::make_unique<cluster::StatusServer>(config, read_token(config));
}

Telemetry::Telemetry(Session& session, const PipelinePlan& plan, const RankResources& needs, Pipeline& pipeline, TelemetrySetup setup,
                     std::unique_ptr<cluster::StatusServer> server)
    : setup_(std::move(setup)),
      reporter_(setup_.log, setup_.metrics),
      pipeline_(pipeline),
      gather_(session, pipeline),
      server_(std::move(server)) {
  if (!session.leads()) return;
  for (RunListener* listener : setup_.listeners) reporter_.also(listener);
  if (server_) reporter_.also(&live_.emplace(live_run(setup_, plan, session), session, pipeline));
  if (setup_.directory.empty()) return;
  if (setup_.tensorboard) reporter_.also(&tensorboard_.emplace(setup_.directory, setup_.first_step, setup_.log.peak_flops));
  if (!setup_.profiled) return;
  runtime::Machine job;  // operations are not timed, so there is nothing to compare a rank's share with
  job.job_peak_flops = setup_.log.peak_flops;
  reporter_.also(&profile_.emplace(plan, needs, session.topology(), setup_.build, gather_, job));
}

void Telemetry::serve() {
  if (!server_) return;
  auto pages = live_->pages();
  pages.push_back(profile_page(profile_ ? &*profile_ : nullptr, setup_.directory));
  server_->start(std::move(pages));
}

Ending Telemetry::oversee(std::future<Ending> ending, const std::function<void()>& stop) {
  // Not a single long wait: ThreadSanitizer delivers a signal only when its thread enters the runtime, which it does not while
  // waiting for a future.
  bool stops = false;
  while (ending.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready) {
    if (!stops && stop_asked()) {
      stops = true;
      reporter_.say("stop requested: the run saves after this step and ends (Ctrl-C now ends it at once, without saving)");
      stop();
    }
    reporter_.evaluating(pipeline_.progress(0).progress.microbatch);
    if (profile_asked()) {
      if (profile_) profile_->request();
      if (!profile_) reporter_.warn(fmt::format("no profile: {}", no_place));
    }
    if (profile_ && profile_->due()) write_profile();
  }
  if (profile_ && profile_->requested())
    reporter_.warn(fmt::format("no profile: the run ended before {}", counted(LiveProfile::steps, "step")));
  return ending.get();
}

/// Errors of a profile do not end the run.
void Telemetry::write_profile() try {
  auto measured = profile_->take();
  MILLRACE_CHECK(measured, ExitCode::data, telemetry_component, "none of the last {} steps is complete in all ranks' rings",
                 LiveProfile::steps);
  const auto name = fmt::format("step-{:08}", measured->steps.back().value + 1);
  reporter_.say(setup_.profiled(std::move(*measured), runtime::join_path(runtime::join_path(setup_.directory, "profiles"), name)));
} catch (const std::exception& error) {
  reporter_.warn(fmt::format("no profile: {}", without_component(error.what())));
}

}  // namespace millrace::actors
