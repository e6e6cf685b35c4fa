#include "runtime/io/hash_recorder.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <exception>

#include "runtime/io/hash.hpp"

namespace millrace::runtime {
namespace {

File begin_file(const std::string& run_directory, int rank, std::int64_t after) {
  const auto folder = join_path(run_directory, hash_folder);
  make_directories(folder);
  const auto path = join_path(folder, fmt::format("after-{:08}.rank-{}", after, rank));
  if (kind_of(path) != PathKind::missing) remove_file(path);
  return File::create(path);
}

}  // namespace

std::string_view to_string(TensorMoment moment) {
  switch (moment) {
    case TensorMoment::weight:
      return "weight";
    case TensorMoment::forward:
      return "forward";
    case TensorMoment::gradient:
      return "backward";
  }
  return "";
}

std::uint64_t mixed(const TensorHash& record, std::uint64_t name_hash) {
  const std::uint64_t words[] = {record.hash, name_hash, static_cast<std::uint64_t>(static_cast<std::uint32_t>(record.microbatch)),
                                 static_cast<std::uint64_t>(record.moment)};
  return hash_of(std::as_bytes(std::span(words))).low;
}

HashRecorder::HashRecorder(const std::string& run_directory, int rank, int ranks, std::int64_t after)
    : file_(begin_file(run_directory, rank, after)) {
  file_.write(fmt::format("{{\"schema\":1,\"kind\":\"millrace.hashes\",\"rank\":{},\"ranks\":{},\"after\":{}}}\n", rank, ranks, after));
}

HashRecorder::~HashRecorder() {
  try {
    end_step();
  } catch (const std::exception&) {  // the disk is full, and the run has already ended
  }
}

void HashRecorder::begin_step(std::int64_t step) {
  if (step != step_) end_step();
  step_ = step;
  records_.clear();
  sum_ = 0;
}

std::uint32_t HashRecorder::name(std::string_view operation, std::string_view tensor) {
  std::string text(operation);
  if (!text.empty()) text += name_border;
  text += tensor;
  const auto [place, fresh] = names_.try_emplace(text, static_cast<std::uint32_t>(names_.size()));
  if (fresh) {
    name_hashes_.push_back(hash_of(tensor).low);  // the tensor's name only: which operation writes it may depend on the layout
    new_names_ += text + '\n';
  }
  return place->second;
}

void HashRecorder::add(TensorHash record, std::span<const std::byte> bytes) { add_hash(record, hash_of(bytes).low); }

void HashRecorder::add_hash(TensorHash record, std::uint64_t hash) {
  record.hash = hash;
  records_.push_back(record);
  sum_ += mixed(record, name_hashes_[record.name]);
}

void HashRecorder::end_step() {
  if (step_ == 0) return;
  HashBlock block;
  block.step = static_cast<std::uint64_t>(step_);
  block.names_bytes = new_names_.size();
  block.records = records_.size();
  block.sum = sum_;
  const auto names = std::as_bytes(std::span(new_names_));
  const auto records = std::as_bytes(std::span(records_));
  StreamHash check;
  check.update(names);
  check.update(records);
  block.check = check.digest().low;
  // A single write, so that a killed run leaves whole blocks and at most one torn block.
  std::vector<std::byte> bytes(sizeof block);
  std::memcpy(bytes.data(), &block, sizeof block);
  bytes.insert(bytes.end(), names.begin(), names.end());
  bytes.insert(bytes.end(), records.begin(), records.end());
  step_ = 0;
  new_names_.clear();
  records_.clear();
  file_.write(bytes);
}

void forget_hashes(const std::string& run_directory, std::int64_t after) {
  const auto folder = join_path(run_directory, hash_folder);
  if (kind_of(folder) != PathKind::directory) return;
  constexpr std::string_view prefix = "after-";
  for (const auto& name : list_directory(folder))
    if (name.starts_with(prefix) && std::strtoll(name.c_str() + prefix.size(), nullptr, 10) >= after) remove_file(join_path(folder, name));
}

}  // namespace millrace::runtime
