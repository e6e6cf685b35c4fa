#include "runtime/checkpoint/found_checkpoint.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "kernels/base/without_component.hpp"
#include "runtime/checkpoint/checkpoint_names.hpp"
#include "runtime/checkpoint/run_journal.hpp"

namespace millrace::runtime {
namespace {

[[noreturn]] void refuse(const std::string& path, const char* component) {
  MILLRACE_CHECK(kind_of(path) != PathKind::missing, ExitCode::checkpoint, component, "{}: there is no such folder", path);
  const auto run = parent_path(path);
  const auto name = file_name_of(std::string_view(path).substr(0, path.find_last_not_of('/') + 1));
  MILLRACE_CHECK(name != file_name_of(checkpoints_folder(run)), ExitCode::checkpoint, component,
                 "{}: the folder of a run's checkpoints, expected one of them or the run directory, {}", path, run);
  fail(ExitCode::checkpoint, component, "{}: neither a run directory (it has no folder checkpoints/) nor a checkpoint (it has no {})", path,
       manifest_name);
}

/// The newest complete checkpoint that the run of this one has from before it.
std::optional<std::string> older_than(const std::string& checkpoint) {
  const auto step = step_of(file_name_of(checkpoint));
  const auto run = parent_path(parent_path(checkpoint));
  if (!step || !is_run_directory(run)) return std::nullopt;
  std::optional<std::string> older;
  for (const auto& line : list_checkpoints(run))
    if (line.step < *step && line.problem.empty()) older = line.folder;
  return older;
}

/// Calls read(); an Error(checkpoint) also names an older checkpoint of the same run.
template <class Read>
auto with_older(const std::string& checkpoint, Read read) {
  try {
    return read();
  } catch (const Error& error) {
    const auto older = error.code() == ExitCode::checkpoint ? older_than(checkpoint) : std::nullopt;
    if (!older) throw;
    throw Error(error.code(), fmt::format("{}; an older checkpoint of this run is {}", error.what(), *older));
  }
}

}  // namespace

ListedCheckpoint listed_checkpoint(const std::string& folder) {
  const auto name = file_name_of(folder);
  const auto put_aside = step_put_aside(name);
  ListedCheckpoint line{put_aside ? *put_aside : step_of(name).value_or(0), folder, 0, {}};
  try {
    const CheckpointReader reader(folder);
    line.step = reader.step();
    for (const auto& shard : reader.manifest().shards) line.bytes += shard.bytes;
  } catch (const Error& error) {
    line.problem = std::string(without_component(error.what()));
  }
  return line;
}

std::vector<ListedCheckpoint> list_checkpoints(const std::string& run_directory) {
  std::vector<ListedCheckpoint> listed;
  const auto folder = checkpoints_folder(run_directory);
  for (const auto step : checkpoint_steps(folder)) {
    auto line = listed_checkpoint(join_path(folder, checkpoint_name(step)));
    if (!line.problem.empty() && kind_of(line.folder) == PathKind::missing) continue;  // its run has deleted it meanwhile
    line.step = step;
    listed.push_back(std::move(line));
  }
  return listed;
}

std::vector<PutAside> put_aside(const std::string& run_directory) {
  const auto folder = checkpoints_folder(run_directory);
  if (kind_of(folder) == PathKind::missing) return {};
  std::map<std::uint64_t, std::vector<PutAside>> by_step;
  for (const auto& name : list_directory(folder))
    if (const auto step = step_put_aside(name)) by_step[*step].push_back({*step, join_path(folder, name), {}});
  std::map<std::uint64_t, std::vector<std::string>> reasons;
  for (const auto& record : read_journal(run_directory))
    if (record.event == JournalEvent::quarantined) reasons[record.step].push_back(record.note);
  std::vector<PutAside> result;
  for (auto& [step, folders] : by_step) {
    // "step-….bad" is older than "….bad-2". Earlier ones may have been deleted, so the newest record is that of the newest folder.
    std::ranges::sort(folders, {}, [](const PutAside& one) { return std::pair(one.folder.size(), one.folder); });
    const auto& known = reasons[step];
    for (std::size_t back = 0; back < std::min(folders.size(), known.size()); ++back)
      folders[folders.size() - 1 - back].reason = known[known.size() - 1 - back];
    std::ranges::move(folders, std::back_inserter(result));
  }
  return result;
}

std::string put_aside_text(const std::string& run_directory) {
  std::string text;
  for (const auto& one : put_aside(run_directory))
    text += fmt::format("\n  {}{}", file_name_of(one.folder),
                        one.reason.empty() ? "" : ": " + without_folder(one.reason, checkpoints_folder(run_directory)));
  return text;
}

std::string without_folder(std::string text, const std::string& folder) {
  const std::string prefix = folder + "/";
  for (auto at = text.find(prefix); at != std::string::npos; at = text.find(prefix, at)) text.erase(at, prefix.size());
  return text;
}

bool is_run_directory(const std::string& path) { return kind_of(join_path(checkpoints_folder(path), ".")) == PathKind::directory; }

bool is_checkpoint(const std::string& path) {
  return kind_of(join_path(path, manifest_name)) != PathKind::missing || kind_of(join_path(path, commit_name)) != PathKind::missing;
}

std::vector<ListedCheckpoint> committed_checkpoints(const std::string& path, const char* component) {
  if (!is_run_directory(path)) refuse(path, component);
  return list_checkpoints(path);
}

std::vector<ListedCheckpoint> some_checkpoints(const std::string& path, const char* component) {
  auto listed = committed_checkpoints(path, component);
  const auto damaged = listed.empty() ? put_aside_text(path) : std::string();
  MILLRACE_CHECK(damaged.empty(), ExitCode::checkpoint, component, "{}: no checkpoint is usable. These were damaged and put aside:{}\n{}",
                 path, damaged, restore_advice);
  MILLRACE_CHECK(!listed.empty(), ExitCode::checkpoint, component, "{}: no checkpoint was committed", path);
  return listed;
}

CheckpointReader open_checkpoint(const std::string& path, const char* component) {
  if (is_checkpoint(path)) return CheckpointReader(path);
  const auto newest = some_checkpoints(path, component).back().folder;
  return with_older(newest, [&] { return CheckpointReader(newest); });
}

void read_from(const CheckpointReader& checkpoint, const std::function<void()>& read) { with_older(checkpoint.folder(), read); }

}  // namespace millrace::runtime
