#include "tools/commands/recorded_run.hpp"

#include <optional>
#include <utility>

#include "kernels/base/check.hpp"
#include "runtime/checkpoint/checkpoint_file.hpp"
#include "runtime/io/file_system.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/run_settings.hpp"

namespace millrace::tools {

RecordedRun recorded_run(const std::vector<std::string>& words, const char* component) {
  auto sources = words;
  sources.front() = runtime::join_path(words.front(), "run.toml");
  MILLRACE_CHECK(runtime::kind_of(sources.front()) == runtime::PathKind::file, ExitCode::usage, component,
                 "{}: no run directory, it has no run.toml", words.front());
  auto run = load_run(sources);
  return {settings_of(run.config, build_id()), std::move(run.model_warnings)};
}

std::unique_ptr<actors::SteppedRun> run_before(const actors::RunSettings& settings, const std::string& directory, std::int64_t step) {
  std::optional<runtime::CheckpointReader> newest, later;
  for (const auto& listed : runtime::list_checkpoints(directory)) {
    if (!listed.problem.empty()) continue;
    (static_cast<std::int64_t>(listed.step) < step ? newest : later).emplace(listed.folder);
  }
  return std::make_unique<actors::SteppedRun>(settings, std::move(newest), later ? &*later : nullptr);
}

}  // namespace millrace::tools
