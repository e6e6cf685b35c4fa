// millrace profile: trains some steps of a run and reports where their time went.

#include <algorithm>
#include <optional>
#include <vector>

#include "actors/jobs/profiled_run.hpp"
#include "actors/planning/model_costs.hpp"
#include "actors/telemetry/log_line.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/device.hpp"
#include "runtime/io/file_system.hpp"
#include "runtime/profile/analyze.hpp"
#include "runtime/schedule/simulator/layer_assignment.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/profile_report.hpp"
#include "tools/commands/run_settings.hpp"

namespace millrace::tools {

namespace {

constexpr const char* profile_component = "millrace profile";

int check(const Arguments& parsed) {
  MILLRACE_CHECK(parsed.positional().empty(), ExitCode::usage, profile_component, "--check with {}, expected the folder alone",
                 parsed.positional().front());
  const auto folder = parsed.text("check");
  const auto problems = check_profile(folder);
  fmt::print("{}", problems.empty() ? fmt::format("{}: profile.json adds up, trace.json is sound\n", folder) : problems);
  return problems.empty() ? 0 : static_cast<int>(ExitCode::difference);
}

/// The stage costs according to pipeline.costs. Empty if the run has none or its layout divides layers: pipeline.costs has the times of
/// whole layers.
std::optional<runtime::Costs> promised_costs(const configs::LoadedRun& run, const runtime::Measured& measured) {
  const auto& config = run.config;
  const auto& placement = measured.schedule.placement;
  const auto layers = static_cast<int>(layers::chain_of(config.model).all());
  const std::vector<int> counts{measured.layers.begin(), measured.layers.begin() + placement.model_stages()};
  const bool divided = std::ranges::find(measured.divided, true) != measured.divided.end();
  if (config.pipeline.costs.empty() || divided) return std::nullopt;
  const auto parts = actors::parse_costs(config.pipeline.costs, run.settings.at("pipeline.costs").origin.place, layers);
  runtime::Costs costs;
  costs.stages = runtime::stage_costs(placement, parts, counts);
  return costs;
}

int print_and_write(const runtime::Profile& profile, const std::string& folder) {
  const auto problems = write_profile(profile, folder);
  fmt::print("{}\n{}/profile.json, {}/trace.json, {}/report.html\n", print(profile), folder, folder, folder);
  if (problems.empty()) return 0;
  fmt::print(stderr, "{}", problems);
  return static_cast<int>(ExitCode::difference);
}

int profile(const Arguments& parsed) {
  if (parsed.given("check")) return check(parsed);
  actors::Session session;
  std::optional<configs::LoadedRun> run;
  actors::ProfileSettings settings;
  const std::string folder = parsed.text("out");
  bool replaces = false;
  session.prepare_together([&] {
    run = load_run(parsed.positional(), Needs::to_train);
    settings.steps = static_cast<int>(parsed.integer("steps", 1, 10'000));
    static_cast<void>(kernels::parse_device(run->config.device));
    replaces = runtime::kind_of(runtime::join_path(folder, "profile.json")) != runtime::PathKind::missing;
    if (session.leads()) runtime::make_directories(folder);  // an error is reported before the steps run
    inject_faults(*run, session.launch().process);
  });
  session.connect(static_cast<int>(run->config.ranks()), run->config.cluster);
  int code = 0;
  session.carry_out([&] {
    if (session.leads()) print_warnings(*run);
    if (session.leads() && replaces)
      print_warnings(std::vector{fmt::format("{} has an earlier profile, which is replaced; --out FOLDER keeps both", folder)});
    settings.run = settings_of(*run, build_id());
    settings.stepped = [line = actors::LogLine(0)](const actors::StepRecord& record) mutable {
      line.add(record);
      std::fputs((line.aligned() + "\n").c_str(), stdout);  // fmt::print would throw if stdout cannot be written
      std::fflush(stdout);
    };
    if (auto measured = actors::profile_training(session, settings)) {
      measured->planned = promised_costs(*run, *measured);
      code = print_and_write(runtime::analyze(std::move(*measured)), folder);
    }
  });
  return code;
}

}  // namespace

Command profile_command() {
  return {.name = "profile",
          .words = run_words,
          .summary = "Show where the time of some steps goes, by rank and cause, action and operation. Alone or under mpirun.",
          .notes =
              "One step to warm up, then the steps that are profiled, from the run's initial state, which may be that of another run "
              "(train.start_from). Only the folder is written: no "
              "checkpoint, no metrics. Under mpirun all processes take part and process 0 prints. docs/profiling.md explains the "
              "causes.",
          .options = {{.name = "steps", .value = "N", .help = "Steps to profile.", .fallback = "5"},
                      {.name = "out",
                       .value = "FOLDER",
                       .help = "Folder for profile.json, trace.json (for ui.perfetto.dev) and report.html.",
                       .fallback = "profile",
                       .offer = offer_folders},
                      {.name = "check",
                       .value = "FOLDER",
                       .help = "Instead of a run: check the files of such a folder; ends with 1 if one is not sound.",
                       .offer = offer_folders}},
          .offer = offer_run,
          .run = profile};
}

}  // namespace millrace::tools
