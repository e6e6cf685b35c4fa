#pragma once

#include <string>
#include <vector>

#include "actors/setup/run_identity.hpp"
#include "actors/setup/session.hpp"
#include "runtime/checkpoint/checkpoint_reader.hpp"
#include "runtime/data/content_hash.hpp"

namespace millrace::actors {

/// The data of a job: its files and their content.
struct DataContent {
  std::vector<runtime::DataFile> files;
  std::vector<runtime::FileContent> contents;  // by file; empty if not needed, or if another process of this host hashed them

  /// The value of the identity key data.content; empty without contents.
  [[nodiscard]] std::string hash() const;
};

/// Hashes the files on all of this process's cores. Files whose metadata match a record in the run directory are not read again
/// (`directory` may be empty). With `logs_progress`, a long computation logs its progress every few seconds. Errors: those of
/// runtime::hash_files.
[[nodiscard]] DataContent hash_content(std::vector<runtime::DataFile> files, const std::string& directory, bool logs_progress);

/// Records the contents in the run directory for the next start on this host; logs a warning if that fails. `process` is the number
/// of this process.
void record_content(const DataContent& content, const std::string& directory, int process);

/// Collective: the first process of each host hashes the files that it sees, if `needed` or if there are several hosts.
/// `fingerprint` contains their names and sizes, and is compared first. `check` is called with the result before contents are
/// compared between hosts. Errors: Error(start) in every process, with the first files that differ, hosts and hashes; those of
/// `check` and hash_content().
[[nodiscard]] DataContent agree_on_content(Session& session, std::vector<runtime::DataFile> files, const std::string& fingerprint,
                                           const std::string& directory, bool needed,
                                           const std::function<void(const DataContent&)>& check = {});

/// Refuses to resume from `checkpoint` with other identity keys; the content of the data is not compared. Errors:
/// Error(checkpoint); if names or sizes of the data's files are others than those that `directory` has a record of, it names some of the
/// files and says how they differ.
void check_identity(const RunIdentity& run, const runtime::CheckpointReader& checkpoint, IdentityKeys current,
                    const std::vector<runtime::DataFile>& files, const std::string& directory);

/// Refuses to resume from `checkpoint` with other data. Errors: Error(checkpoint) with the file and both hashes. Returns a warning
/// for the user if the checkpoint was written before data were hashed, since only names and sizes can then be compared; else an
/// empty text.
[[nodiscard]] std::string check_content(const runtime::CheckpointReader& checkpoint, const DataContent& content,
                                        const std::string& directory);

/// The identity key of DataSource::fingerprint(): names, sizes and token counts.
inline constexpr const char* data_key = "data";
/// The identity key of DataContent::hash().
inline constexpr const char* data_content_key = "data.content";

}  // namespace millrace::actors
