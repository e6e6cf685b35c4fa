#include "tools/commands/recorded_run.hpp"

#include <optional>
#include <utility>

#include "actors/setup/pipeline_plan.hpp"
#include "cluster/host/log.hpp"
#include "configs/identity.hpp"
#include "kernels/base/check.hpp"
#include "runtime/checkpoint/found_checkpoint.hpp"
#include "runtime/io/file_system.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/run_settings.hpp"

namespace millrace::tools {
namespace {

/// A key that was given over that of the run and changes the numbers.
struct OtherNumber {
  std::string key, was, now;
  bool of_layout = false;  // the key itself was not given: another one decides about it
};

/// What `settings` would change of the numbers of the run that `recorded` describes. Its own checkpoints are compared when it is opened;
/// this also finds what differs in a run that has none.
std::vector<OtherNumber> other_numbers(const actors::RunSettings& settings, const actors::RunSettings& recorded) {
  std::vector<OtherNumber> others;
  for (const auto& change : configs::identity_changes(recorded.identity.keys, settings.identity.keys))
    others.push_back({change.key, change.recorded, change.current});
  const auto parts = [](const actors::PipelinePlan& plan) { return std::pair(plan.parts(), plan.expert_parts()); };
  if (!others.empty() || settings.identity.text == recorded.identity.text) return others;
  const auto now = parts(actors::make_plan(settings.plan_request())), was = parts(actors::make_plan(recorded.plan_request()));
  if (now.first != was.first) others.push_back({"train.accumulators", std::to_string(was.first), std::to_string(now.first), true});
  if (now.second != was.second)
    others.push_back({"train.expert_accumulators", std::to_string(was.second), std::to_string(now.second), true});
  return others;
}

void refuse_other_numbers(const configs::LoadedRun& run, const actors::RunSettings& settings, const configs::LoadedRun& file,
                          const std::string& path, const char* component) {
  const auto others = other_numbers(settings, settings_of(file, build_id()));
  std::string text;
  for (const auto& other : others) {
    const bool steps = other.key == configs::schedule_key && run.config.train.schedule_steps == 0;
    const std::string key = steps ? "train.steps" : other.key;
    text += fmt::format("{}{} = {} (from {}), but the run had {}", text.empty() ? "" : "; ", key, other.now,
                        other.of_layout ? "the layout" : run.settings.at(key).origin.place, other.was);
  }
  MILLRACE_CHECK(others.empty(), ExitCode::checkpoint, component,
                 "{}: {}. That changes the numbers, which are to be those of the run; only layout keys may differ (`millrace config keys` "
                 "says which these are)",
                 path, text);
}

/// The description alone: neither the environment nor the command line counts.
configs::LoadedRun load_file(const std::string& file) {
  configs::LoadRequest request;
  request.files = {file};
  request.read_model = read_model_file;
  return configs::load(request);
}

}  // namespace

RecordedRun recorded_run(const std::vector<std::string>& arguments, const char* component) {
  auto sources = arguments;
  sources.front() = runtime::join_path(arguments.front(), "run.toml");
  MILLRACE_CHECK(runtime::kind_of(sources.front()) == runtime::PathKind::file, ExitCode::usage, component,
                 "{}: not a run directory, expected a run.toml in it", arguments.front());
  auto run = load_run(sources);
  RecordedRun recorded{settings_of(run, build_id()), std::move(run.model_warnings)};
  refuse_other_numbers(run, recorded.settings, load_file(sources.front()), sources.front(), component);
  return recorded;
}

std::unique_ptr<actors::SteppedRun> run_before(const actors::RunSettings& settings, const std::string& directory, std::int64_t step) {
  std::optional<runtime::CheckpointReader> before;  // the newest of those before the step
  std::optional<runtime::CheckpointReader> later;   // the newest of the others, which still identifies the run (its data)
  for (const auto& checkpoint : runtime::list_checkpoints(directory)) {  // by step, ascending; damaged ones are left out
    if (!checkpoint.problem.empty()) continue;
    (static_cast<std::int64_t>(checkpoint.step) < step ? before : later).emplace(checkpoint.folder);
  }
  return std::make_unique<actors::SteppedRun>(settings, std::move(before), later ? &*later : nullptr);
}

}  // namespace millrace::tools
