#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/io/file_system.hpp"

namespace millrace::runtime {

enum class JournalEvent : std::uint8_t { start, begin, committing, committed, discarded, quarantined, resumed };
[[nodiscard]] std::string_view to_string(JournalEvent event) noexcept;

struct JournalRecord {
  JournalEvent event = JournalEvent::start;
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;  // used by begin, committing, committed, discarded
  std::string note;         // the run's id for start, the reason for quarantined
};

/// `<run>/journal.jsonl`: one line per event of the run's checkpoints, synced to the disk before the next event happens. It
/// distinguishes "nothing was ever committed" (start from the seed) from "committed, but all damaged" (stop). One writer: the
/// coordinator. Errors: Error(storage).
class RunJournal {
 public:
  /// Opens or creates the journal of a run, and its folder. A torn last line (left by a killed process) is cut off; any other
  /// unreadable line makes damaged() true.
  explicit RunJournal(const std::string& run_directory);

  /// Appends a record; it is durable when this returns.
  void append(const JournalRecord& record);
  [[nodiscard]] const std::vector<JournalRecord>& records() const noexcept { return records_; }
  /// A unique name of the run.
  [[nodiscard]] const std::string& run_id() const noexcept { return run_id_; }
  /// The epoch for the next attempt: one more than the largest so far.
  [[nodiscard]] std::uint64_t next_epoch() const noexcept;
  [[nodiscard]] bool damaged() const noexcept { return damaged_; }
  /// True if there is a committed record, or a damaged line that may have been one.
  [[nodiscard]] bool says_committed() const noexcept;
  /// Attempts that were about to be renamed into place when the process ended (step and epoch).
  [[nodiscard]] std::vector<JournalRecord> undecided() const;

 private:
  void read(const std::string& text);

  File file_;
  std::vector<JournalRecord> records_;
  std::string run_id_;
  bool damaged_ = false;
};

/// The records of a run's journal, for listings: nothing is created or changed. Unreadable lines, and a missing file, are skipped.
[[nodiscard]] std::vector<JournalRecord> read_journal(const std::string& run_directory);

[[nodiscard]] std::string journal_path(const std::string& run_directory);

}  // namespace millrace::runtime
