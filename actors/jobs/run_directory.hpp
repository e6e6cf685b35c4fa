#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "actors/jobs/data_content.hpp"
#include "actors/setup/run_settings.hpp"
#include "runtime/checkpoint/checkpoint_file.hpp"
#include "runtime/io/metrics_file.hpp"

namespace millrace::actors {

/// `run.directory` as process 0 keeps it: checkpoints/, journal.jsonl, metrics.jsonl, run.toml (and data/, where each host keeps the hashes
/// of its data). Opening it finds the newest usable checkpoint and puts damaged ones aside, with a warning each on stderr. Errors:
/// Error(checkpoint), Error(storage), Error(start) when another job has the run and keeps it for five seconds.
class RunDirectory {
 public:
  explicit RunDirectory(const RunSettings& settings);

  [[nodiscard]] runtime::CheckpointStore& store() noexcept { return *store_; }
  /// The checkpoint to resume from; nullptr for a run that begins.
  [[nodiscard]] const runtime::CheckpointReader* checkpoint() const noexcept { return checkpoint_ ? &*checkpoint_ : nullptr; }
  /// Refuse to resume under other identity keys, and with other data. The second warns of what could not be compared. Errors:
  /// Error(checkpoint).
  void check_identity(const std::map<std::string, std::string>& identity) const;
  void check_content(const DataContent& content) const;
  /// Whether metrics.jsonl has the evaluation after `step` steps.
  [[nodiscard]] bool is_evaluated(std::int64_t step) const;
  /// metrics.jsonl, cut back to `step` when it is opened, the first time.
  [[nodiscard]] runtime::MetricsFile* metrics(std::int64_t step);

 private:
  [[nodiscard]] std::string metrics_path() const;
  const RunSettings& settings_;
  std::unique_ptr<runtime::CheckpointStore> store_;
  std::optional<runtime::CheckpointReader> checkpoint_;
  std::unique_ptr<runtime::MetricsFile> metrics_;
};

}  // namespace millrace::actors
