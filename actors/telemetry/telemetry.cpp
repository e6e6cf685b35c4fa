#include "actors/telemetry/telemetry.hpp"

#include <chrono>

#include "actors/setup/run_signals.hpp"
#include "kernels/base/check.hpp"
#include "runtime/io/file_system.hpp"

namespace millrace::actors {
namespace {

LiveRun live_run(const RunSettings& settings, const PipelinePlan& plan, const Session& session, std::int64_t first_step, double peak) {
  LiveRun run;
  run.directory = settings.directory;
  run.model = fmt::format("{}, {} layers, hidden {}, vocabulary {}", plan.model.family, plan.model.layers, plan.model.hidden_size,
                          plan.model.vocab_size);
  run.dtype = settings.train.dtype;
  run.schedule = plan.schedule.name;
  run.layout = plan.layout_text();
  run.processes = session.topology().processes();
  run.ranks = plan.ranks();
  run.first_step = first_step;
  run.steps = settings.train.steps;
  run.microbatches = settings.train.microbatches;
  run.peak_flops = peak;
  return run;
}

constexpr const char* telemetry_name = "actors.telemetry";
constexpr const char* no_place = "run.directory is empty, expected a folder for profiles";

/// Handles POST /profile. `profile` may be null.
cluster::StatusPage profile_page(LiveProfile* profile, const std::string& directory) {
  cluster::StatusPage page{"/profile", "text/plain; charset=utf-8", [profile, directory] {
                             MILLRACE_CHECK(profile != nullptr, ExitCode::config, telemetry_name, "{}", no_place);
                             profile->request();
                             return fmt::format("a profile of the last steps goes to {}/profiles\n", directory);
                           }};
  page.order = true;
  return page;
}

}  // namespace

std::unique_ptr<cluster::StatusServer> status_server(const Session& session, const RunSettings& settings) {
  if (!session.leads() || settings.status.port < 0) return nullptr;
  return std::make_unique<cluster::StatusServer>(settings.status, read_token(settings.status));
}

Telemetry::Telemetry(Session& session, const RunSettings& settings, const PipelinePlan& plan, const RankResources& needs,
                     Pipeline& pipeline, std::int64_t first_step, const runtime::Machine& machine, runtime::MetricsFile* metrics,
                     std::unique_ptr<cluster::StatusServer> server)
    : settings_(settings),
      reporter_(settings.terminal, machine.job_peak_flops, metrics),
      gather_(session, pipeline),
      server_(std::move(server)) {
  if (!session.leads()) return;
  if (server_) reporter_.also(&live_.emplace(live_run(settings, plan, session, first_step, machine.job_peak_flops), session, pipeline));
  if (settings.directory.empty()) return;
  if (settings.tensorboard) reporter_.also(&tensorboard_.emplace(settings.directory, first_step));
  if (!settings.profiled) return;
  runtime::Machine job;  // operations are not timed, so there is nothing to compare a rank's share with
  job.job_peak_flops = machine.job_peak_flops;
  reporter_.also(&profile_.emplace(settings, plan, needs, session.topology(), gather_, job));
}

void Telemetry::serve() {
  if (!server_) return;
  auto pages = live_->pages();
  pages.push_back(profile_page(profile_ ? &*profile_ : nullptr, settings_.directory));
  server_->start(std::move(pages));
}

Ending Telemetry::oversee(std::future<Ending> ending, const std::function<void()>& stop) {
  // Not a single long wait: ThreadSanitizer delivers a signal only when its thread enters the runtime, which it does not while
  // waiting for a future.
  bool stops = false;
  while (ending.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready) {
    if (!stops && stop_asked()) {
      stops = true;
      reporter_.say("asked to stop: the run saves after this step and ends; a second Ctrl-C ends it at once, without saving");
      stop();
    }
    if (profile_asked()) {
      if (profile_) profile_->request();
      if (!profile_) reporter_.warn(fmt::format("no profile: {}", no_place));
    }
    if (profile_ && profile_->due()) write_profile();
  }
  if (profile_ && profile_->wanted()) reporter_.warn(fmt::format("no profile: the run ended before {} steps", LiveProfile::steps));
  return ending.get();
}

/// Errors of a profile do not end the run.
void Telemetry::write_profile() try {
  auto measured = profile_->take();
  MILLRACE_CHECK(measured, ExitCode::data, telemetry_name, "not one of the last {} steps is whole in all ranks' rings", LiveProfile::steps);
  const auto name = fmt::format("step-{:08}", measured->steps.back().value + 1);
  reporter_.say(settings_.profiled(std::move(*measured), runtime::join_path(runtime::join_path(settings_.directory, "profiles"), name)));
} catch (const std::exception& error) {
  reporter_.warn(fmt::format("no profile: {}", error.what()));
}

}  // namespace millrace::actors
