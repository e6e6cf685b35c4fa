// millrace debug: the whole pipeline of a run in one process, an action or an operation at a time.

#include <unistd.h>

#include <memory>
#include <optional>
#include <utility>

#include "actors/debug/debug_session.hpp"
#include "actors/jobs/stepped_run.hpp"
#include "cluster/host/affinity.hpp"
#include "kernels/base/check.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/run_settings.hpp"

namespace millrace::tools {

const char* const debug_help =
    "  --script FILE        commands from a file, one a line; from standard input where that is no terminal. An error ends the session\n"
    "  --checkpoint FOLDER  begins with this checkpoint's weights and step; otherwise with the run's own beginning\n"
    "Commands are told by `help`. Nothing is written but what `dump` is asked to. docs/debugging.md walks through a session.\n";

namespace {

constexpr const char* who = "millrace debug";

}  // namespace

int debug(const std::vector<std::string>& arguments) {
  const Arguments parsed(arguments, {"script", "checkpoint"}, {});
  MILLRACE_CHECK(!parsed.positional().empty(), ExitCode::usage, who, "no run description, expected RUN.toml or key=value");
  actors::DebugSession* session = nullptr;
  std::unique_ptr<actors::LineReader> reader;
  if (parsed.flag("script") || isatty(STDIN_FILENO) == 0) {
    reader = std::make_unique<actors::ScriptReader>(parsed.text("script", "-"));
  } else {
    reader = std::make_unique<actors::TerminalReader>([&session](const std::string& before) { return session->words_after(before); });
  }
  cluster::widen_affinity();
  auto run = load_run(parsed.positional());
  print_warnings(run);
  const auto settings = settings_of(run.config, build_id());
  std::optional<runtime::CheckpointReader> checkpoint;
  if (parsed.flag("checkpoint")) checkpoint.emplace(parsed.text("checkpoint", ""));
  const actors::SteppedRun stepped(settings, std::move(checkpoint));
  const auto& plan = stepped.plan();
  MILLRACE_CHECK(stepped.first_step() < settings.train.steps, ExitCode::usage, who,
                 "the checkpoint is of step {}, expected one before train.steps = {}", stepped.first_step(), settings.train.steps);
  fmt::print("{}: {} ranks, schedule {}, layout {}, {} microbatches a step, {} threads a rank\n", plan.model.family, plan.ranks(),
             plan.schedule.name, plan.layout_text(), plan.schedule.microbatches, stepped.threads());

  actors::DebugSession debugging(stepped.setup(), std::move(reader));
  session = &debugging;
  debugging.run();
  return 0;
}

}  // namespace millrace::tools
