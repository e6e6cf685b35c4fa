// millrace debug: the whole pipeline of a run in one process, an action or an operation at a time.

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "actors/run_setup.hpp"
#include "cluster/affinity.hpp"
#include "kernels/base/check.hpp"
#include "runtime/io/checkpoint_file.hpp"
#include "tools/commands/command.hpp"
#include "tools/debug/debug_session.hpp"
#include "tools/run_settings.hpp"

namespace millrace::tools {

const char* const debug_help =
    "  --script FILE        commands from a file, one a line; from standard input where that is no terminal. An error ends the session\n"
    "  --checkpoint FOLDER  begins with this checkpoint's weights and step; otherwise with the run's own beginning\n"
    "Commands are told by `help`. Nothing is written but what `dump` is asked to. docs/debugging.md walks through a session.\n";

namespace {

constexpr const char* who = "millrace debug";

/// As the run itself would be given, or was given: the numbers depend on them.
int threads_of(const configs::RunConfig& config, const runtime::CheckpointReader* checkpoint) {
  if (config.train.threads > 0) return static_cast<int>(config.train.threads);
  if (checkpoint != nullptr) {
    const auto found = checkpoint->meta().notes.find("train.threads");
    if (found != checkpoint->meta().notes.end()) return std::stoi(found->second);
  }
  const auto cores = static_cast<std::int64_t>(cluster::available_cores().size());
  return static_cast<int>(std::max<std::int64_t>(1, cores / config.pipeline.ranks));
}

}  // namespace

int debug(const std::vector<std::string>& arguments) {
  const Arguments parsed(arguments, {"script", "checkpoint"}, {});
  MILLRACE_CHECK(!parsed.positional().empty(), ExitCode::usage, who, "no run description, wanted RUN.toml or key=value");
  cluster::widen_affinity();
  auto run = load_run(parsed.positional());
  for (const auto& warning : run.warnings) fmt::print(stderr, "warning: {}\n", warning);
  const auto settings = settings_of(run.config, build_id());
  const auto plan = actors::make_plan(settings.plan_request());
  actors::learning_rate(settings.train).validate();
  const actors::DatasetBatches batches(runtime::open_dataset(settings.data, settings.model.vocab_size), actors::batch_shape(settings));
  std::optional<runtime::CheckpointReader> checkpoint;
  if (parsed.flag("checkpoint")) checkpoint.emplace(parsed.text("checkpoint", ""));

  actors::StepperSetup setup;
  setup.settings = &settings;
  setup.plan = &plan;
  setup.batches = &batches;
  setup.checkpoint = checkpoint ? &*checkpoint : nullptr;
  setup.first_step = checkpoint ? static_cast<std::int64_t>(checkpoint->step()) : 0;
  setup.threads = threads_of(run.config, setup.checkpoint);
  MILLRACE_CHECK(setup.first_step < settings.train.steps, ExitCode::usage, who,
                 "the checkpoint is of step {}, wanted one before train.steps = {}", setup.first_step, settings.train.steps);
  fmt::print("{}: {} ranks, schedule {}, layout {}, {} microbatches a step, {} threads a rank\n", plan.model.family, plan.ranks(),
             plan.schedule.name, plan.layout_text(), plan.schedule.microbatches, setup.threads);

  DebugSession* session = nullptr;
  std::unique_ptr<LineReader> reader;
  if (parsed.flag("script") || isatty(STDIN_FILENO) == 0) {
    reader = std::make_unique<ScriptReader>(parsed.text("script", "-"));
  } else {
    reader = std::make_unique<TerminalReader>([&session](const std::string& before) { return session->words_after(before); });
  }
  DebugSession debugging(setup, std::move(reader));
  session = &debugging;
  debugging.run();
  return 0;
}

}  // namespace millrace::tools
