#include "runtime/io/hash_recording.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <tuple>

#include "kernels/base/check.hpp"
#include "runtime/io/hash.hpp"
#include "runtime/io/json_reader.hpp"

namespace millrace::runtime {
namespace {

constexpr const char* hash_recording_component = "runtime.hash_recording";
constexpr std::uint64_t max_head_bytes = 4096;

/// The first line, without its newline.
std::string head_of(const File& file) {
  std::string text(std::min(file.size(), max_head_bytes), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  return text.substr(0, text.find('\n'));
}

/// Sort key: the order in which a microbatch meets the tensors, see HashRecording::read().
auto order(const RecordedHash& recorded) {
  const auto& record = recorded.record;
  const int stage = record.moment == TensorMoment::gradient ? -static_cast<int>(record.stage) : static_cast<int>(record.stage);
  return std::tuple(record.microbatch, record.moment, stage, record.program, record.operation, recorded.place.tensor);
}

}  // namespace

HashRecording::HashRecording(const std::string& run_directory) {
  const auto folder = join_path(run_directory, hash_folder);
  MILLRACE_CHECK(kind_of(folder) == PathKind::directory, ExitCode::data, hash_recording_component,
                 "{} has no folder {}, expected a run that was trained with --record hashes", run_directory, hash_folder);
  for (const auto& name : list_directory(folder)) {
    files_.push_back({File::open(join_path(folder, name), true, ExitCode::data), 0, 0, {}});
    scan(files_.size() - 1);
  }
  for (auto& [step, starts] : blocks_) {
    auto& [after, newest] = *starts.rbegin();
    const auto& file = files_[newest.front().file];
    if (static_cast<int>(newest.size()) != file.ranks) continue;
    for (const auto& block : newest) sums_[step] += block.sum;
  }
  MILLRACE_CHECK(!sums_.empty(), ExitCode::data, hash_recording_component, "{} has no step that all ranks recorded", folder);
}

void HashRecording::scan(std::size_t index) {
  auto& [file, after, ranks, names] = files_[index];
  const auto head = head_of(file);
  MILLRACE_CHECK(head.starts_with('{'), ExitCode::data, hash_recording_component, "{} begins with {:.60}, expected a recording of hashes",
                 file.path(), head);
  const Json json = parse_json(head, 2, ExitCode::data, file.path());
  const JsonReader header(json, file.path(), ExitCode::data);
  if (header.text("kind") != "millrace.hashes") header.refuse("kind", "expected \"millrace.hashes\"");
  if (header.member("schema").count() != 1) header.refuse("schema", "expected 1");
  after = header.member("after").integer(0, std::numeric_limits<std::int64_t>::max());
  ranks = static_cast<int>(header.member("ranks").count(std::numeric_limits<int>::max()));
  const std::uint64_t size = file.size();
  for (std::uint64_t at = head.size() + 1; at + sizeof(HashBlock) <= size;) {
    HashBlock block;
    file.read_at(at, std::as_writable_bytes(std::span(&block, 1)));
    at += sizeof block;
    const std::uint64_t left = size - at;
    if (block.magic != HashBlock::expected_magic || block.names_bytes > left || block.records > left / sizeof(TensorHash) ||
        block.names_bytes + block.records * sizeof(TensorHash) > left)
      return;  // torn: what follows is incomplete
    std::vector<std::byte> bytes(block.names_bytes + block.records * sizeof(TensorHash));
    file.read_at(at, bytes);
    if (hash_of(bytes).low != block.check) return;
    std::string text(reinterpret_cast<const char*>(bytes.data()), block.names_bytes);
    for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
      names.push_back(text.substr(begin, end - begin));
    auto& of_start = blocks_[static_cast<std::int64_t>(block.step)][after];
    std::erase_if(of_start, [index](const Block& other) { return other.file == index; });  // the step was run again
    of_start.push_back({index, at + block.names_bytes, block.records, block.sum});
    at += bytes.size();
  }
}

std::uint64_t HashRecording::count(std::int64_t step) const {
  std::uint64_t count = 0;
  for (const auto& block : blocks_.at(step).rbegin()->second) count += block.records;
  return count;
}

std::vector<RecordedHash> HashRecording::read(std::int64_t step) const {
  std::vector<RecordedHash> all;
  for (const auto& block : blocks_.at(step).rbegin()->second) {
    const auto& file = files_[block.file];
    std::vector<TensorHash> records(block.records);
    file.file.read_at(block.records_at, std::as_writable_bytes(std::span(records)));
    for (const auto& record : records) {
      MILLRACE_CHECK(record.name < file.names.size(), ExitCode::data, hash_recording_component, "{}: step {} names tensor {}, of {} known",
                     file.file.path(), step, record.name, file.names.size());
      const auto& name = file.names[record.name];
      const auto border = name.find(name_border);
      const bool weight = border == std::string::npos;
      all.push_back(
          {{record.moment, record.microbatch, weight ? name : name.substr(border + 1)}, weight ? "" : name.substr(0, border), record});
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& left, const auto& right) { return order(left) < order(right); });
  return all;
}

}  // namespace millrace::runtime
