#include "runtime/checkpoint/checkpoint_file.hpp"

#include <algorithm>
#include <charconv>
#include <map>

#include "kernels/base/count.hpp"
#include "kernels/base/without_component.hpp"
#include "runtime/checkpoint/checkpoint_names.hpp"
#include "runtime/checkpoint/component.hpp"
#include "runtime/checkpoint/found_checkpoint.hpp"

namespace millrace::runtime {
namespace {

/// A fifth more than the tensors, for manifests and the journal.
bool is_enough(std::uint64_t free, std::uint64_t bytes) { return free / 6 >= bytes / 5; }

void check_space(const std::string& folder, std::uint64_t bytes) {
  const auto free = free_space(folder);
  MILLRACE_CHECK(is_enough(free, bytes), ExitCode::storage, checkpoint_component, "{}: {} are free, expected 1.2 times a checkpoint of {}",
                 folder, byte_count(free), byte_count(bytes));
}

bool is_temporary(std::string_view name) { return name.starts_with("step-") && name.find(".tmp-") != std::string_view::npos; }

/// Suffix of an old checkpoint that is about to be deleted. It differs from the suffix of temporary folders, which ends in an
/// epoch.
constexpr std::string_view retired_suffix = ".tmp-removed";

void write_new_file(const std::string& path, std::string_view text) {
  auto file = File::create(path);
  file.write(text);
  file.sync();
}

// -- one writer
// ---------------------------------------------------------------------------------------------------------------------------------

using TensorsByName = std::map<std::string, const CheckpointTensor*, std::less<>>;

TensorsByName by_name(std::span<const CheckpointTensor> tensors) {
  TensorsByName map;
  for (const auto& tensor : tensors) {
    const auto expected = bytes_of(tensor.name, tensor.dtype, tensor.shape);
    MILLRACE_CHECK(tensor.bytes.size() == expected, ExitCode::internal, checkpoint_component,
                   "tensor '{}' has {} bytes, expected {} for {}", tensor.name, tensor.bytes.size(), expected, shape_text(tensor.shape));
    MILLRACE_CHECK(map.emplace(tensor.name, &tensor).second, ExitCode::internal, checkpoint_component,
                   "tensor '{}' was passed twice to be written", tensor.name);
    if (!tensor.whole.empty()) {
      const auto unit = bytes_of(tensor.name, tensor.dtype, {}), all = bytes_of(tensor.name, tensor.dtype, tensor.whole);
      const auto begin = static_cast<std::uint64_t>(tensor.first) * unit;
      MILLRACE_CHECK(tensor.experts == 0 && tensor.shape.size() == 1 && begin % hash_chunk_bytes == 0 && begin + expected <= all,
                     ExitCode::internal, checkpoint_component,
                     "tensor '{}' is {} from element {} on, expected a run of {}, from a chunk on", tensor.name, shape_text(tensor.shape),
                     tensor.first, shape_text(tensor.whole));
    }
    if (tensor.experts == 0) continue;
    const std::int64_t count = tensor.shape.empty() ? 0 : tensor.shape[0];
    MILLRACE_CHECK(count >= 1 && tensor.first >= 0 && tensor.first + count <= tensor.experts, ExitCode::internal, checkpoint_component,
                   "tensor '{}' is {} from expert {} on, expected some of {} experts along its first axis", tensor.name,
                   shape_text(tensor.shape), tensor.first, tensor.experts);
  }
  return map;
}

std::vector<FileTensor> describe_all(std::span<const CheckpointTensor> tensors) {
  std::vector<FileTensor> described;
  for (const auto& tensor : tensors) described.push_back({tensor.name, tensor.dtype, tensor.shape, 0, 0});
  return described;
}

/// Sends a tensor to the sink in chunks and hashes each just before it is written, unless it was hashed in live memory already.
TensorRecord send(const CheckpointTensor& tensor, const std::string& shard, const ByteSink& sink) {
  TensorRecord record{tensor.name, tensor.dtype, tensor.shape, shard, tensor.chunks, tensor.experts, {}};
  if (tensor.experts > 0) {
    record.shard.clear();
    record.shape.at(0) = tensor.experts;
    record.slices = {{shard, tensor.first, tensor.parts()}};
  } else if (!tensor.whole.empty()) {
    record.shard.clear();
    record.shape = tensor.whole;
    record.slices = {{shard, tensor.first, tensor.shape.front()}};
  }
  for (const ChunkRange& range : chunk_ranges(tensor.bytes.size(), static_cast<std::uint64_t>(tensor.parts()))) {
    const auto chunk = tensor.bytes.subspan(range.offset, range.bytes);
    if (tensor.chunks.empty()) record.chunks.push_back(hash_of(chunk));
    sink(chunk);
  }
  return record;
}

/// Reads the shard back from the disk and compares it with what was in memory.
void read_back(const std::string& path, const ShardReport& report) {
  const SafetensorsFile file(path, ExitCode::storage, false);
  file.drop_cache();
  MILLRACE_CHECK(hash_of(file.header_bytes()) == report.shard.header, ExitCode::storage, checkpoint_component,
                 "{}: the header does not read back as it was written", path);
  std::vector<std::byte> scratch(hash_chunk_bytes);
  for (const auto& record : report.tensors) {
    const auto& tensor = file.at(record.name);
    const auto parts = record.experts == 0 ? 1 : record.slices.front().count;
    const auto ranges = chunk_ranges(tensor.bytes(), static_cast<std::uint64_t>(parts));
    for (std::size_t chunk = 0; chunk < ranges.size(); ++chunk) {
      const auto part = std::span(scratch).first(ranges[chunk].bytes);
      file.read_bytes(tensor, ranges[chunk].offset, part);
      MILLRACE_CHECK(hash_of(std::as_bytes(part)) == record.chunks.at(chunk), ExitCode::storage, checkpoint_component,
                     "{}: tensor '{}' at byte {} does not read back as it was in memory", path, record.name, ranges[chunk].offset);
    }
  }
}

}  // namespace

ShardReport write_shard(const std::string& folder, int writer, int writers, std::span<const CheckpointTensor> tensors) {
  const auto sources = by_name(tensors);
  std::uint64_t bytes = 0;
  for (const auto& tensor : tensors) bytes += tensor.bytes.size();
  check_space(folder, bytes);
  ShardReport report{writer, writers, {shard_name(writer, writers), 0, {}}, {}};
  const auto path = join_path(folder, report.shard.file);
  {
    auto file = File::create(path);
    const auto layout =
        write_safetensors_to(file, describe_all(tensors), {{"format", "millrace"}}, [&](const FileTensor& tensor, const ByteSink& sink) {
          report.tensors.push_back(send(*sources.at(tensor.name), report.shard.file, sink));
        });
    file.sync();
    report.shard.bytes = file.size();
    report.shard.header = hash_of(layout.bytes);
  }
  sync_directory(folder);
  read_back(path, report);
  fault_point("checkpoint.after_shard");
  return report;
}

// -- the coordinator
// ----------------------------------------------------------------------------------------------------------------------------

namespace {

/// Runs an action; a failure becomes a warning.
template <class Action>
void attempt(std::vector<CheckpointWarning>& warnings, CheckpointWarning::Cause cause, const char* words, Action action) {
  try {
    action();
  } catch (const std::exception& error) {
    warnings.push_back({cause, fmt::format("{}: {}", words, without_component(error.what()))});
  }
}

File take_lock(const std::string& run_directory, const LockWait& wait) {
  make_directories(run_directory);
  auto file = File::append(join_path(run_directory, "lock"));
  while (!file.try_lock()) {
    MILLRACE_CHECK(wait && wait(), ExitCode::start, checkpoint_component, "{}: another process is training in this run directory",
                   run_directory);
  }
  return file;
}

}  // namespace

CheckpointStore::CheckpointStore(const std::string& run_directory, Retention retention, const LockWait& wait)
    : run_directory_(run_directory),
      folder_(checkpoints_folder(run_directory)),
      retention_(retention),
      lock_(take_lock(run_directory, wait)),
      journal_(run_directory) {
  const bool folder_was_there = kind_of(folder_) != PathKind::missing;
  make_directories(folder_);
  decide_undecided(folder_was_there);
  remove_leftovers();
}

std::string CheckpointStore::temporary_name(std::uint64_t step, std::uint64_t epoch) const {
  return fmt::format("{}.tmp-{}", checkpoint_name(step), epoch);
}

/// Handles a process that died between "committing" and "committed". The checkpoint counts as committed if it has its final name,
/// and that name is synced to the disk before the journal records it. If it has neither the final nor the temporary name, the
/// attempt is lost, to a power loss or because somebody removed it, and the earlier checkpoints remain. But if the whole folder
/// of checkpoints is gone, a committed one may be gone too, and the run must not start again from its seed.
void CheckpointStore::decide_undecided(bool folder_was_there) {
  const auto undecided = journal_.undecided();
  if (!undecided.empty()) sync_directory(folder_);
  for (const auto& record : undecided) {
    const bool renamed = kind_of(join_path(folder_, checkpoint_name(record.step))) != PathKind::missing;
    const auto event = renamed || !folder_was_there ? JournalEvent::committed : JournalEvent::discarded;
    journal_.append({event, record.step, record.epoch, "found at the next start"});
  }
}

void CheckpointStore::remove_leftovers() {
  for (const auto& name : list_directory(folder_))
    if (is_temporary(name)) remove_tree(join_path(folder_, name));
}

std::string CheckpointStore::begin(std::uint64_t step, std::uint64_t bytes) {
  const auto final_folder = join_path(folder_, checkpoint_name(step));
  MILLRACE_CHECK(kind_of(final_folder) == PathKind::missing, ExitCode::checkpoint, checkpoint_component,
                 "{}: step {} has a checkpoint already", final_folder, step);
  if (!is_enough(free_space(folder_), bytes)) {
    std::vector<CheckpointWarning> lesser;  // that there is no space matters more
    retire(lesser);                         // fewer may be kept than when the last one was written
  }
  check_space(folder_, bytes);
  const auto epoch = journal_.next_epoch();
  journal_.append({JournalEvent::begin, step, epoch, ""});
  const auto temporary = join_path(folder_, temporary_name(step, epoch));
  make_directory(temporary);
  try {
    sync_directory(folder_);  // without it, files synced inside could be lost with the folder
  } catch (const Error&) {
    discard(temporary);
    throw;
  }
  fault_point("checkpoint.after_begin");
  return temporary;
}

Manifest CheckpointStore::assemble(std::span<const ShardReport> reports, const CheckpointMeta& meta, std::uint64_t epoch) const {
  Manifest manifest{meta, epoch, journal_.run_id(), {}, {}, {}};
  std::vector<const ShardReport*> ordered(reports.size(), nullptr);
  for (const auto& report : reports) {
    const bool fits = report.writers == static_cast<int>(reports.size()) && report.writer >= 0 && report.writer < report.writers;
    MILLRACE_CHECK(fits && ordered[static_cast<std::size_t>(report.writer)] == nullptr, ExitCode::internal, checkpoint_component,
                   "step {}: the report of writer {} of {} among {} reports", meta.step, report.writer, report.writers, reports.size());
    ordered[static_cast<std::size_t>(report.writer)] = &report;
  }
  for (const auto* report : ordered) {
    manifest.shards.push_back(report->shard);
    manifest.tensors.insert(manifest.tensors.end(), report->tensors.begin(), report->tensors.end());
  }
  MILLRACE_CHECK(!manifest.tensors.empty(), ExitCode::internal, checkpoint_component, "step {}: a checkpoint without tensors", meta.step);
  manifest.tensors = joined(std::move(manifest.tensors), fmt::format("step {}", meta.step));
  manifest.state = manifest.state_hash();  // also rejects a tensor that two writers have
  return manifest;
}

CommitResult CheckpointStore::commit(const std::string& folder, std::span<const ShardReport> reports, const CheckpointMeta& meta) {
  const auto name = file_name_of(folder);
  const auto dash = name.rfind('-');
  std::uint64_t epoch = 0;
  std::from_chars(name.data() + dash + 1, name.data() + name.size(), epoch);
  MILLRACE_CHECK(is_temporary(name) && name == temporary_name(meta.step, epoch), ExitCode::internal, checkpoint_component,
                 "committing step {} in the folder {}", meta.step, folder);
  const auto manifest = assemble(reports, meta, epoch).text();
  write_new_file(join_path(folder, manifest_name), manifest);
  fault_point("checkpoint.after_manifest");
  write_new_file(join_path(folder, commit_name), Commit{meta.step, epoch, manifest.size(), hash_of(manifest)}.text());
  sync_directory(folder);
  fault_point("checkpoint.after_commit_file");

  CommitResult result{join_path(folder_, checkpoint_name(meta.step)), {}};
  journal_.append({JournalEvent::committing, meta.step, epoch, ""});
  rename_path(folder, result.folder);
  fault_point("checkpoint.after_rename");
  sync_directory(folder_);
  // Without this line the next start still finds the checkpoint in the folder.
  attempt(result.warnings, CheckpointWarning::Cause::journal, "the run's journal could not be written", [&] {
    journal_.append({JournalEvent::committed, meta.step, epoch, ""});
  });
  fault_point("checkpoint.after_commit");
  retire(result.warnings);
  return result;
}

std::vector<CheckpointWarning> CheckpointStore::discard(const std::string& folder) noexcept {
  std::vector<CheckpointWarning> warnings;
  const auto name = file_name_of(folder);
  const auto dot = name.find(".tmp-");
  if (kind_of(folder) != PathKind::directory || dot == std::string::npos) return warnings;
  std::uint64_t epoch = 0;
  std::from_chars(name.data() + dot + 5, name.data() + name.size(), epoch);
  // The folder is removed whatever the journal says: on a full disk no journal line can be written before it is gone.
  attempt(warnings, CheckpointWarning::Cause::deletion, "a checkpoint that was given up could not be deleted",
          [&] { remove_tree(folder); });
  attempt(warnings, CheckpointWarning::Cause::journal, "the run's journal could not be written", [&] {
    journal_.append({JournalEvent::discarded, step_of(name.substr(0, dot)).value_or(0), epoch, ""});
  });
  return warnings;
}

void CheckpointStore::retire(std::vector<CheckpointWarning>& warnings) {
  if (retention_.keep_last == 0) return;
  constexpr auto cause = CheckpointWarning::Cause::deletion;
  constexpr auto words = "an old checkpoint could not be deleted";
  attempt(warnings, cause, words, [&] {
    const auto steps = checkpoint_steps(folder_);
    const auto keep = std::max<std::uint64_t>(retention_.keep_last, 2);
    for (std::size_t index = 0; index + keep < steps.size(); ++index) {
      if (retention_.keep_every != 0 && steps[index] % retention_.keep_every == 0) continue;
      // Rename first: an incomplete checkpoint must not have the name of a complete one.
      const auto folder = join_path(folder_, checkpoint_name(steps[index]));
      attempt(warnings, cause, words, [&] { rename_path(folder, folder + std::string(retired_suffix)); });
    }
    // Also removes folders that an earlier commit could not delete.
    bool synced = false;
    for (const auto& name : list_directory(folder_)) {
      if (!name.ends_with(retired_suffix)) continue;
      if (!synced) sync_directory(folder_);  // it must not have that name after a power loss either
      synced = true;
      attempt(warnings, cause, words, [&] { remove_tree(join_path(folder_, name)); });
    }
  });
}

// -- reading
// ------------------------------------------------------------------------------------------------------------------------------------

namespace {

/// Describes what is wrong with a checkpoint; empty if nothing is. A disk that cannot be read throws.
std::string damage(const CheckpointReader& reader, std::uint64_t step) {
  if (reader.step() != step)
    return fmt::format("{}: the folder is named after another step than {}, which was committed", reader.folder(), reader.step());
  const auto problems = reader.verify();
  if (problems.empty()) return {};
  const auto more = problems.size() > 1 ? fmt::format(" and {} more", problems.size() - 1) : std::string{};
  return to_string(problems.front()) + more;
}

}  // namespace

FoundCheckpoint CheckpointStore::newest_usable() {
  FoundCheckpoint found;
  auto steps = checkpoint_steps(folder_);
  std::reverse(steps.begin(), steps.end());
  for (const auto step : steps) {
    const auto name = checkpoint_name(step);
    std::string reason;
    try {
      CheckpointReader reader(join_path(folder_, name));
      reason = damage(reader, step);
      if (reason.empty()) {
        found.checkpoint = std::move(reader);
        return found;
      }
    } catch (const Error& error) {
      if (error.code() == ExitCode::storage) throw;
      reason = std::string(without_component(error.what()));
    }
    quarantine(name, reason);
    found.warnings.push_back(fmt::format("checkpoint of step {} is damaged and was put aside: {}", step, reason));
  }
  if (!ever_committed()) return found;
  const auto damaged = put_aside_text(run_directory_);
  fail(ExitCode::checkpoint, checkpoint_component, "{}: checkpoints were committed, but none is usable. {}\n{}", folder_,
       damaged.empty() ? "The folder has none: somebody moved or deleted them." : "These were damaged and put aside:" + damaged,
       restore_advice);
}

bool CheckpointStore::ever_committed() const {
  if (journal_.says_committed()) return true;
  const auto names = list_directory(folder_);
  return std::any_of(names.begin(), names.end(), [](const auto& name) { return step_put_aside(name).has_value(); });
}

void CheckpointStore::quarantine(const std::string& name, const std::string& reason) {
  auto target = join_path(folder_, name + ".bad");
  for (int copy = 2; kind_of(target) != PathKind::missing; ++copy) target = join_path(folder_, fmt::format("{}.bad-{}", name, copy));
  rename_path(join_path(folder_, name), target);
  sync_directory(folder_);
  journal_.append({JournalEvent::quarantined, step_of(name).value_or(0), 0, reason});
}

}  // namespace millrace::runtime
