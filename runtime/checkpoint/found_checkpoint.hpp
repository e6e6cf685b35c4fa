#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/checkpoint/checkpoint_reader.hpp"

/// Finds the checkpoints that a user names, by a checkpoint's folder or by the run directory that contains it, without changing anything or
/// taking the lock. Errors: Error(checkpoint), with the component `component`.
namespace millrace::runtime {

/// One line of `millrace ckpt ls`.
struct ListedCheckpoint {
  std::uint64_t step = 0;
  std::string folder;
  std::uint64_t bytes = 0;
  std::string problem;  // empty if the checkpoint is committed and its manifest and headers are complete
};
/// The line of a checkpoint's folder.
[[nodiscard]] ListedCheckpoint listed_checkpoint(const std::string& folder);
/// Lists the committed checkpoints of a run, oldest first, without reading their data.
[[nodiscard]] std::vector<ListedCheckpoint> list_checkpoints(const std::string& run_directory);

/// A checkpoint that was found damaged when a run was to be resumed, and renamed to step-….bad.
struct PutAside {
  std::uint64_t step = 0;
  std::string folder;
  std::string reason;  // from the run's journal; empty if that does not say
};
/// What to do about it: for messages.
inline constexpr const char* restore_advice =
    "To resume, put an intact copy of one into that folder under its name (step-…, without .bad); to begin anew, use another run.directory";
/// Lists those that are still there, oldest step first.
[[nodiscard]] std::vector<PutAside> put_aside(const std::string& run_directory);
/// A line for each, "\n  step-00000012.bad: …": for messages, which name the folder once. Empty without any.
[[nodiscard]] std::string put_aside_text(const std::string& run_directory);
/// The text with the paths below this folder relative to it.
[[nodiscard]] std::string without_folder(std::string text, const std::string& folder);

[[nodiscard]] bool is_run_directory(const std::string& path);
[[nodiscard]] bool is_checkpoint(const std::string& path);

/// The committed checkpoints of a path that must be a run directory, oldest first.
[[nodiscard]] std::vector<ListedCheckpoint> committed_checkpoints(const std::string& path, const char* component);
/// The same; that there is none is an error, which says whether some were put aside.
[[nodiscard]] std::vector<ListedCheckpoint> some_checkpoints(const std::string& path, const char* component);
/// Opens the named checkpoint, or the newest committed one of a run directory. Its manifest and headers have been verified. The error of a
/// damaged one names an older one of the same run, if there is any.
[[nodiscard]] CheckpointReader open_checkpoint(const std::string& path, const char* component);
/// Calls read(), which reads data of this checkpoint. The error of damaged data names an older checkpoint of the same run too.
void read_from(const CheckpointReader& checkpoint, const std::function<void()>& read);

}  // namespace millrace::runtime
