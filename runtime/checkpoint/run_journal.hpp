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
  std::uint64_t epoch = 0;  // begin, committing, committed, discarded
  std::string note;         // the run's id for start, the reason for quarantined
};

/// `<run>/journal.jsonl`: what happened to the run's checkpoints, one line each, on the disk before the next thing happens. It tells
/// "nothing was ever committed" (start from the seed) from "committed, but all damaged" (stop). One writer: the coordinator. Errors:
/// Error(storage).
class RunJournal {
 public:
  /// Opens or begins the journal of a run; makes its folder. A torn last line (of a killed process) is cut off; other lines that cannot be
  /// read make damaged() true.
  explicit RunJournal(const std::string& run_directory);

  /// Durable when this returns.
  void append(const JournalRecord& record);
  [[nodiscard]] const std::vector<JournalRecord>& records() const noexcept { return records_; }
  /// A name for the run that no other has.
  [[nodiscard]] const std::string& run_id() const noexcept { return run_id_; }
  /// One more than that of any begin before.
  [[nodiscard]] std::uint64_t next_epoch() const noexcept;
  [[nodiscard]] bool damaged() const noexcept { return damaged_; }
  /// A committed record is there, or something damaged that may have been one.
  [[nodiscard]] bool says_committed() const noexcept;
  /// Attempts that were about to be renamed into place when the process ended: step and epoch.
  [[nodiscard]] std::vector<JournalRecord> undecided() const;

 private:
  void read(const std::string& text);

  File file_;
  std::vector<JournalRecord> records_;
  std::string run_id_;
  bool damaged_ = false;
};

[[nodiscard]] std::string journal_path(const std::string& run_directory);

}  // namespace millrace::runtime
