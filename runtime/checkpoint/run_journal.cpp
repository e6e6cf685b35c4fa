#include "runtime/checkpoint/run_journal.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "runtime/io/hash.hpp"
#include "runtime/io/json_reader.hpp"

namespace millrace::runtime {
namespace {

constexpr std::uint64_t schema = 1;
constexpr std::uint64_t max_journal_bytes = std::uint64_t{1} << 30;
constexpr std::array<std::string_view, 7> event_names = {"start",     "begin",       "committing", "committed",
                                                         "discarded", "quarantined", "resumed"};

std::string line_of(const JournalRecord& record) {
  const nlohmann::json object = {
      {"schema", schema}, {"event", to_string(record.event)}, {"step", record.step}, {"epoch", record.epoch}, {"note", record.note}};
  // A note may quote bytes of a damaged file, which need not be UTF-8.
  return object.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n";
}

std::optional<JournalRecord> parse_line(std::string_view line) {
  constexpr auto code = ExitCode::checkpoint;
  try {
    const auto parsed = parse_json(line, 2, code, "journal");
    const JsonReader record(parsed, "journal", code);
    const auto& name = record.member("event").text();
    const auto* const event = std::find(event_names.begin(), event_names.end(), name);
    if (event == event_names.end() || record.member("schema").count() != schema) return std::nullopt;
    return JournalRecord{static_cast<JournalEvent>(event - event_names.begin()), record.member("step").count(),
                         record.member("epoch").count(), record.member("note").text()};
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string new_run_id() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

File open_journal(const std::string& run_directory) {
  make_directories(run_directory);
  auto file = File::append(journal_path(run_directory));
  sync_directory(run_directory);  // also if the file existed: its creator may have been killed before this sync
  return file;
}

}  // namespace

std::string_view to_string(JournalEvent event) noexcept { return event_names[static_cast<std::size_t>(event)]; }
std::string journal_path(const std::string& run_directory) { return join_path(run_directory, "journal.jsonl"); }

std::vector<JournalRecord> read_journal(const std::string& run_directory) {
  std::vector<JournalRecord> records;
  const auto path = journal_path(run_directory);
  if (kind_of(path) == PathKind::missing) return records;
  const auto text = read_text_file(path, max_journal_bytes, ExitCode::storage);
  for (std::string_view rest = text; !rest.empty();) {
    const auto end = std::min(rest.find('\n'), rest.size());
    if (auto record = parse_line(rest.substr(0, end))) records.push_back(std::move(*record));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return records;
}

RunJournal::RunJournal(const std::string& run_directory) : file_(open_journal(run_directory)) {
  auto text = read_text_file(file_.path(), max_journal_bytes, ExitCode::storage);
  const auto whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  if (whole != text.size()) {
    file_.truncate(whole);
    text.resize(whole);
  }
  read(text);
  if (run_id_.empty()) {
    run_id_ = new_run_id();
    append({JournalEvent::start, 0, 0, run_id_});
  }
}

void RunJournal::read(const std::string& text) {
  for (std::string_view rest = text; !rest.empty();) {
    const auto end = rest.find('\n');
    const auto record = parse_line(rest.substr(0, end));
    rest.remove_prefix(end + 1);
    damaged_ = damaged_ || !record;
    if (!record) continue;
    if (record->event == JournalEvent::start && run_id_.empty()) run_id_ = record->note;
    records_.push_back(*record);
  }
}

void RunJournal::append(const JournalRecord& record) {
  const auto before = file_.size();
  try {
    file_.write(line_of(record));
    file_.sync();
  } catch (const Error&) {
    // A partial line must not become the beginning of the next one.
    file_.truncate(before);
    throw;
  }
  records_.push_back(record);
}

std::uint64_t RunJournal::next_epoch() const noexcept {
  std::uint64_t last = 0;
  for (const auto& record : records_) last = std::max(last, record.epoch);
  return last + 1;
}

bool RunJournal::says_committed() const noexcept {
  return damaged_ ||
         std::any_of(records_.begin(), records_.end(), [](const auto& record) { return record.event == JournalEvent::committed; });
}

std::vector<JournalRecord> RunJournal::undecided() const {
  std::map<std::uint64_t, JournalRecord> open;
  for (const auto& record : records_) {
    if (record.event == JournalEvent::committing) open[record.epoch] = record;
    if (record.event == JournalEvent::committed || record.event == JournalEvent::discarded) open.erase(record.epoch);
  }
  std::vector<JournalRecord> result;
  for (const auto& [epoch, record] : open) result.push_back(record);
  return result;
}

}  // namespace millrace::runtime
