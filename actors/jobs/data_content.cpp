#include "actors/jobs/data_content.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <iterator>
#include <set>
#include <span>
#include <utility>

#include "cluster/host/affinity.hpp"
#include "cluster/host/log.hpp"
#include "cluster/topology.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "kernels/base/without_component.hpp"
#include "runtime/io/file_system.hpp"
#include "runtime/units.hpp"

namespace millrace::actors {
namespace {

constexpr const char* component = "actors.data_content";

std::string records_folder(const std::string& directory) { return runtime::join_path(directory, "data"); }

std::string record_of(const std::string& directory, const std::string& host) {
  return runtime::join_path(records_folder(directory), host + ".txt");
}

/// A record only saves time: one that is missing or unreadable is ignored.
std::vector<runtime::FileContent> read_record(const std::string& path) {
  constexpr std::uint64_t largest_record = std::uint64_t{1} << 30;
  if (runtime::kind_of(path) != runtime::PathKind::file) return {};
  try {
    return runtime::contents_from_text(runtime::read_text_file(path, largest_record, ExitCode::storage));
  } catch (const Error&) {
    return {};
  }
}

/// The recorded contents whose hash is `hash`, from any host; empty if there are none.
std::vector<runtime::FileContent> recorded_as(const std::string& hash, const std::string& directory) {
  if (directory.empty() || runtime::kind_of(records_folder(directory)) != runtime::PathKind::directory) return {};
  for (const auto& name : runtime::list_directory(records_folder(directory))) {
    auto contents = read_record(runtime::join_path(records_folder(directory), name));
    if (runtime::hash_of_contents(contents).hex() == hash) return contents;
  }
  return {};
}

std::uint64_t bytes_of(const std::vector<runtime::DataFile>& files) {
  std::uint64_t bytes = 0;
  for (const auto& file : files) bytes += file.size;
  return bytes;
}

/// "1 more file", "2 more files".
std::string more_files(std::size_t count) { return fmt::format("{} more {}", count, noun_for(count, "file")); }

[[noreturn]] void refuse_other_content(const std::string& expected, const runtime::CheckpointReader& checkpoint, const DataContent& content,
                                       const std::string& directory) {
  const auto recorded = recorded_as(expected, directory);
  std::string first;
  std::size_t others = 0;
  for (std::size_t i = 0; i < recorded.size() && recorded.size() == content.files.size(); ++i) {
    if (recorded[i].hash == content.contents[i].hash) continue;
    if (first.empty()) {
      first = fmt::format("{}: its content has the hash {}, expected {}", content.files[i].path.string(), content.contents[i].hash.hex(),
                          recorded[i].hash.hex());
    } else {
      ++others;
    }
  }
  if (first.empty()) {
    first = fmt::format("the content of the data ({}{}) has the hash {}, expected {}", content.files.front().path.string(),
                        content.files.size() > 1 ? " and " + more_files(content.files.size() - 1) : "", content.hash(), expected);
  }
  fail(ExitCode::checkpoint, component, "{} belongs to another run: {}{}. Use the old data, or another run.directory", checkpoint.folder(),
       first, others > 0 ? fmt::format(", and {} {}", more_files(others), others == 1 ? "differs" : "differ") : "");
}

/// Up to three of the texts, and how many more there are.
std::string some_of(std::vector<std::string> texts) {
  constexpr std::size_t shown = 3;
  const std::size_t more = texts.size() - std::min(texts.size(), shown);
  texts.resize(texts.size() - more);
  return fmt::format("{}{}", fmt::join(texts, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

/// "story.txt grew from 90 to 100 bytes", for each file whose size is another one than it was.
std::vector<std::string> resized_files(const std::vector<runtime::FileContent>& recorded, const std::vector<runtime::DataFile>& files) {
  std::map<std::string, std::set<std::uint64_t>> before;  // files of several sources may share a name
  for (const auto& file : recorded) before[file.name].insert(file.stamp.size);
  std::vector<std::string> texts;
  for (const auto& file : files) {
    const auto known = before.find(file.name);
    if (known == before.end() || known->second.contains(file.size)) continue;
    const auto size = *known->second.begin();
    texts.push_back(
        fmt::format("{} {} from {} to {}", file.path.string(), file.size > size ? "grew" : "shrank", size, counted(file.size, "byte")));
  }
  return texts;
}

/// What has become of the files since the run read them: which grew or shrank, which were added, which are missing. Empty if their names
/// and sizes are the same.
std::string changed_files(const std::vector<runtime::FileContent>& recorded, const std::vector<runtime::DataFile>& files) {
  std::set<std::string> before, now;
  for (const auto& file : recorded) before.insert(file.name);
  for (const auto& file : files) now.insert(file.name);
  const auto only_in = [](const std::set<std::string>& those, const std::set<std::string>& others) {
    std::vector<std::string> names;
    std::ranges::set_difference(those, others, std::back_inserter(names));
    return names;
  };
  std::vector<std::string> changes;
  if (const auto resized = resized_files(recorded, files); !resized.empty()) changes.push_back(some_of(resized));
  if (const auto added = only_in(now, before); !added.empty())
    changes.push_back("the data have files that the run did not read: " + some_of(added));
  if (const auto removed = only_in(before, now); !removed.empty())
    changes.push_back("the data lack files that the run read: " + some_of(removed));
  return fmt::format("{}", fmt::join(changes, "; "));
}

/// A file's name as part of the name of a value that processes compare.
std::string comparable(std::string name) {
  std::ranges::replace_if(
      name, [](char c) { return c == '=' || c == '\n'; }, '?');
  return name;
}

/// Compares file by file, a few at a time, so that messages stay short. Never returns if a file differs. `entry`(i): what is compared of
/// file i, and its value.
template <class Entry>
void agree_by_file(Session& session, std::size_t files, Entry entry) {
  constexpr std::size_t at_a_time = 4;
  for (std::size_t begin = 0; begin < files; begin += at_a_time) {
    std::map<std::string, std::string> values;
    for (std::size_t i = begin; i < std::min(begin + at_a_time, files); ++i) values.insert(entry(i));
    session.control().agree(values);
  }
}

void agree_by_content(Session& session, const DataContent& content) {
  agree_by_file(session, content.files.size(), [&](std::size_t i) {
    return std::pair(fmt::format("the content of file {}, {},", i + 1, comparable(content.files[i].name)),
                     content.contents.empty() ? std::string() : content.contents[i].hash.hex());
  });
}

/// The same for names and sizes, before anything is read.
void agree_by_size(Session& session, const std::vector<runtime::DataFile>& files) {
  session.control().agree({{"the number of data files", std::to_string(files.size())}});
  agree_by_file(session, files.size(), [&](std::size_t i) {
    return std::pair(fmt::format("data file {}", i + 1), fmt::format("{} with {}", comparable(files[i].name), byte_count(files[i].size)));
  });
}

}  // namespace

std::string DataContent::hash() const { return contents.empty() ? "" : runtime::hash_of_contents(contents).hex(); }

DataContent hash_content(std::vector<runtime::DataFile> files, const std::string& directory, bool logs_progress) {
  using namespace std::chrono;
  DataContent content{std::move(files), {}};
  const auto known = directory.empty() ? std::vector<runtime::FileContent>{} : read_record(record_of(directory, cluster::host_name()));
  const auto bytes = bytes_of(content.files);
  // Beyond a few threads memory bandwidth is the limit, and a few files do not need threads.
  const auto cores = static_cast<std::uint64_t>(cluster::available_cores().size());
  const auto threads = std::clamp<std::uint64_t>(bytes / (std::uint64_t{64} << 20), 1, std::clamp<std::uint64_t>(cores, 1, 16));
  std::atomic<std::uint64_t> done{0};
  auto hashing = std::async(std::launch::async, [&] {
    kernels::ThreadTeam team(static_cast<int>(threads));
    return runtime::hash_files(content.files, known, team, done);
  });
  for (auto pause = seconds(2); hashing.wait_for(pause) != std::future_status::ready; pause = seconds(5))
    if (logs_progress) cluster::log_info("hashed {} of {} of data", runtime::bytes_text(done), runtime::bytes_text(bytes));
  content.contents = hashing.get();
  return content;
}

void record_content(const DataContent& content, const std::string& directory, int process) {
  const auto path = record_of(directory, cluster::host_name());
  const auto text = runtime::to_text(content.contents);
  if (text == runtime::to_text(read_record(path))) return;
  try {
    runtime::make_directories(records_folder(directory));
    const auto own = fmt::format("{}.{}", path, process);  // hosts may share a name
    runtime::write_text_file(own, text);
    runtime::rename_path(own, path);
  } catch (const Error& error) {
    cluster::log_warning("the data will be hashed again at the next start: {}", without_component(error.what()));
  }
}

DataContent agree_on_content(Session& session, std::vector<runtime::DataFile> files, const std::string& fingerprint,
                             const std::string& directory, bool needed, const std::function<void(const DataContent&)>& check) {
  const auto* transport = session.transport();
  const bool hosts = transport != nullptr && !transport->one_host();
  if (const auto verdict = session.control().compare({{"data", fingerprint}}); !verdict.empty()) {
    agree_by_size(session, files);
    throw Error(ExitCode::start, verdict);
  }
  DataContent content{std::move(files), {}};
  if (!needed && !hosts) return content;
  if (session.launch().local_process == 0) content = hash_content(std::move(content.files), directory, session.leads());
  if (check) check(content);
  // No limit for the time that the others read: whatever ends one of them ends all.
  constexpr auto no_limit = std::chrono::hours(24 * 365);
  if (const auto verdict = session.control().compare({{"the content of the data", content.hash()}}, no_limit); !verdict.empty()) {
    agree_by_content(session, content);
    throw Error(ExitCode::start, verdict);
  }
  return content;
}

void check_identity(const RunIdentity& run, const runtime::CheckpointReader& checkpoint, IdentityKeys current,
                    const std::vector<runtime::DataFile>& files, const std::string& directory) {
  auto recorded = checkpoint.meta().identity;
  const std::string content = recorded[data_content_key], was = recorded[data_key], now = current[data_key];
  for (auto* keys : {&recorded, &current})
    for (const char* key : {data_content_key, data_key}) keys->erase(key);
  const bool differ = was != now;
  const auto known = differ ? recorded_as(content, directory) : std::vector<runtime::FileContent>{};
  const auto changed = known.empty() ? std::string() : changed_files(known, files);
  try {
    run.check(recorded, current, checkpoint.folder(), static_cast<std::int64_t>(checkpoint.step()));
  } catch (const Error& error) {
    if (changed.empty()) throw;  // the keys may be why the data differ
    throw Error(error.code(), fmt::format("{}. Its data differ too: {}", error.what(), changed));
  }
  if (!differ) return;
  const char* how = known.empty() ? "the data have other files, sizes or numbers of tokens, and no record in the run directory says which "
                                    "files they were"
                                  : "the same files are divided in another way into data for training and for evaluation";
  fail(ExitCode::checkpoint, component, "{} belongs to another run: {}. Use the old data, or another run.directory", checkpoint.folder(),
       changed.empty() ? fmt::format("{} (their hash was {}, now {})", how, was, now) : changed);
}

std::string check_content(const runtime::CheckpointReader& checkpoint, const DataContent& content, const std::string& directory) {
  const auto& recorded = checkpoint.meta().identity;
  const auto expected = recorded.find(data_content_key);
  if (expected == recorded.end())
    return fmt::format("{} was written without hashes of the data: their names and sizes were compared, their content was not",
                       checkpoint.folder());
  if (expected->second != content.hash()) refuse_other_content(expected->second, checkpoint, content, directory);
  return {};
}

}  // namespace millrace::actors
