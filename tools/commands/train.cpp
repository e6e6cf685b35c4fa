#include <unistd.h>

#include <optional>

#include "actors/jobs/training.hpp"
#include "actors/setup/run_signals.hpp"
#include "cluster/host/log.hpp"
#include "kernels/base/count.hpp"
#include "kernels/base/device.hpp"
#include "kernels/base/without_component.hpp"
#include "runtime/profile/analyze.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/profile_report.hpp"
#include "tools/commands/run_report.hpp"
#include "tools/commands/run_settings.hpp"
#include "tools/commands/terminal.hpp"

namespace millrace::tools {
namespace {

std::string write_live_profile(runtime::Measured measured, const std::string& folder) {
  const auto profile = runtime::analyze(std::move(measured));
  const auto problems = write_profile(profile, folder);
  return fmt::format("profile   of {} in {}{}", counted(profile.steps.size(), "step"), folder, problems.empty() ? "" : "\n" + problems);
}

/// The run is finished and saved: a page that cannot be written does not fail it.
void draw_curves(const std::string& run_directory) {
  try {
    static_cast<void>(write_run_report(run_directory));
  } catch (const Error& error) {
    cluster::log_warning("no report: {}", without_component(error.what()));
  }
}

int train(const Arguments& parsed) {
  actors::note_signals();
  actors::Session session;
  std::optional<configs::LoadedRun> run;
  session.prepare_together([&] {
    auto words = parsed.positional();
    if (parsed.given("record")) words.push_back("run.record=" + parsed.text("record"));
    run = load_run(words);
    static_cast<void>(kernels::parse_device(run->config.device));  // refuses what this build has no kernels for
    inject_faults(*run, session.launch().process);
  });
  session.connect(static_cast<int>(run->config.ranks()), run->config.cluster);
  session.carry_out([&] {
    if (session.leads()) print_warnings(*run);
    auto settings = settings_of(*run, build_id());
    if (watched(session.launch(), STDOUT_FILENO))
      settings.terminal_columns = [&launch = session.launch()] { return terminal_columns(launch, STDOUT_FILENO); };
    settings.profiled = write_live_profile;
    actors::train(session, settings);
    if (session.leads() && !run->config.directory.empty()) draw_curves(run->config.directory);
  });
  return 0;
}

}  // namespace

Command train_command() {
  return {.name = "train",
          .words = run_words,
          .summary = "Train a model; the same command again resumes the run. Alone or under mpirun.",
          .notes =
              "RUN.toml may be the name of an installed run, such as quickstart. `millrace config keys` prints every key. docs/errors.md "
              "says which signals save and end a run.",
          .options = {{.name = "record",
                       .value = "WHAT",
                       .help = "The same as run.record: hashes of every tensor, for `millrace compare`.",
                       .choices = {"none", "hashes"}}},
          .offer = offer_run,
          .run = train};
}

}  // namespace millrace::tools
