// millrace debug: the whole pipeline of a run in one process, an action or an operation at a time.

#include <unistd.h>

#include <memory>
#include <optional>
#include <utility>

#include "actors/debug/debug_session.hpp"
#include "actors/jobs/stepped_run.hpp"
#include "cluster/host/affinity.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "runtime/checkpoint/found_checkpoint.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/run_settings.hpp"

namespace millrace::tools {

namespace {

constexpr const char* debug_component = "millrace debug";

int debug(const Arguments& parsed) {
  MILLRACE_CHECK(!parsed.positional().empty(), ExitCode::usage, debug_component, "no run description, expected RUN.toml or key=value");
  actors::DebugSession* session = nullptr;
  std::unique_ptr<actors::LineReader> reader;
  if (parsed.given("script") || isatty(STDIN_FILENO) == 0) {
    reader = std::make_unique<actors::ScriptReader>(parsed.text("script", "-"));
  } else {
    reader = std::make_unique<actors::TerminalReader>([&session](const std::string& before) { return session->words_after(before); });
  }
  cluster::widen_affinity();
  auto run = load_run(parsed.positional(), Needs::to_train);
  print_warnings(run);
  const auto settings = settings_of(run, build_id());
  std::optional<runtime::CheckpointReader> checkpoint;
  if (parsed.given("checkpoint")) checkpoint.emplace(runtime::open_checkpoint(parsed.text("checkpoint"), debug_component));
  const actors::SteppedRun stepped(settings, std::move(checkpoint));
  const auto& plan = stepped.plan();
  MILLRACE_CHECK(stepped.first_step() < settings.train.steps, ExitCode::usage, debug_component,
                 "the checkpoint is of step {}, expected one before train.steps = {}", stepped.first_step(), settings.train.steps);
  fmt::print("{}: {}{}, schedule {}, layout {}, {} per step, {} per rank\n", layers::family_title(plan.model), plan.copies_text(),
             counted(plan.schedule.placement.positions(), "rank"), plan.schedule.name, plan.layout_text(),
             counted(plan.schedule.microbatches, "microbatch"), counted(stepped.threads(), "thread"));

  actors::DebugSession debugging(stepped.setup(), std::move(reader));
  session = &debugging;
  debugging.run();
  return 0;
}

}  // namespace

Command debug_command() {
  return {.name = "debug",
          .words = run_words,
          .summary = "Run the whole pipeline in one process, one action or operation at a time: break points, tensors, NaN.",
          .notes =
              "The command `help` of the session lists its commands, `quit` ends it. Only `dump` writes files. docs/debugging.md walks "
              "through a session.",
          .options = {{.name = "script",
                       .value = "FILE",
                       .help = "Read commands from a file, one per line; an error ends the session. Default: standard input.",
                       .offer = offer_files},
                      {.name = "checkpoint",
                       .value = "DIR",
                       .help = "Begin with the weights and the step of this checkpoint, or of a run directory's newest one. Default: the "
                               "run's own beginning.",
                       .offer = offer_folders}},
          .offer = offer_run,
          .run = debug};
}

}  // namespace millrace::tools
