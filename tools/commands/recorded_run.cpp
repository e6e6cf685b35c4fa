#include "tools/commands/recorded_run.hpp"

#include <optional>
#include <utility>

#include "kernels/base/check.hpp"
#include "runtime/checkpoint/found_checkpoint.hpp"
#include "runtime/io/file_system.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/run_settings.hpp"

namespace millrace::tools {

RecordedRun recorded_run(const std::vector<std::string>& arguments, const char* component) {
  auto sources = arguments;
  sources.front() = runtime::join_path(arguments.front(), "run.toml");
  MILLRACE_CHECK(runtime::kind_of(sources.front()) == runtime::PathKind::file, ExitCode::usage, component,
                 "{}: not a run directory, expected a run.toml in it", arguments.front());
  auto run = load_run(sources);
  return {settings_of(run, build_id()), std::move(run.model_warnings)};
}

std::unique_ptr<actors::SteppedRun> run_before(const actors::RunSettings& settings, const std::string& directory, std::int64_t step) {
  std::optional<runtime::CheckpointReader> before;  // the newest of those before the step
  std::optional<runtime::CheckpointReader> later;   // the newest of the others, which still identifies the run (its threads and data)
  for (const auto& checkpoint : runtime::list_checkpoints(directory)) {  // by step, ascending; damaged ones are left out
    if (!checkpoint.problem.empty()) continue;
    (static_cast<std::int64_t>(checkpoint.step) < step ? before : later).emplace(checkpoint.folder);
  }
  return std::make_unique<actors::SteppedRun>(settings, std::move(before), later ? &*later : nullptr);
}

}  // namespace millrace::tools
