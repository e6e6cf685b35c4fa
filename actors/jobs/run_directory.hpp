#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "actors/jobs/data_content.hpp"
#include "actors/setup/run_identity.hpp"
#include "runtime/checkpoint/checkpoint_file.hpp"
#include "runtime/io/metrics_file.hpp"

namespace millrace::actors {

/// `run.directory` as process 0 maintains it: checkpoints/, journal.jsonl, metrics.jsonl, run.toml (and data/, where each host
/// stores the hashes of its data). Opening it finds the newest usable checkpoint and sets damaged ones aside, with a warning on
/// stderr for each. Errors: Error(checkpoint), Error(storage), Error(start) if another job holds the run for more than five
/// seconds.
class RunDirectory {
 public:
  /// `keep`: the number of newest checkpoints that are kept. `identity` must outlive this object.
  RunDirectory(std::string directory, std::int64_t keep, const RunIdentity& identity);

  [[nodiscard]] runtime::CheckpointStore& store() noexcept { return *store_; }
  /// The checkpoint to resume from; nullptr for a new run.
  [[nodiscard]] const runtime::CheckpointReader* checkpoint() const noexcept { return checkpoint_ ? &*checkpoint_ : nullptr; }
  /// Once the state has been read: while the files are open, deleting them frees no space on the disk.
  void close_checkpoint() noexcept { checkpoint_.reset(); }
  /// These refuse to resume with other identity keys, and with other data. The second warns about what could not be compared.
  /// Errors: Error(checkpoint).
  void check_identity(const IdentityKeys& current, const std::vector<runtime::DataFile>& files) const;
  void check_content(const DataContent& content) const;
  /// Whether metrics.jsonl has the evaluation after `step` steps.
  [[nodiscard]] bool is_evaluated(std::int64_t step) const;
  /// metrics.jsonl, cut back to `step` when it is first opened.
  [[nodiscard]] runtime::MetricsFile* metrics(std::int64_t step);

 private:
  [[nodiscard]] std::string metrics_path() const;
  std::string directory_;
  const RunIdentity& identity_;
  std::unique_ptr<runtime::CheckpointStore> store_;
  std::optional<runtime::CheckpointReader> checkpoint_;
  std::unique_ptr<runtime::MetricsFile> metrics_;
};

}  // namespace millrace::actors
