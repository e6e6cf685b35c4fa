#include "runtime/checkpoint/checkpoint_records.hpp"

#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/checkpoint/component.hpp"
#include "runtime/io/file_system.hpp"
#include "runtime/io/json_reader.hpp"
#include "runtime/io/safetensors_header.hpp"

namespace millrace::runtime {
namespace {

constexpr int max_depth = 6;
using nlohmann::json;

void check_schema(const JsonReader& record) {
  const auto schema = record.member("schema");
  if (schema.count() != checkpoint_schema) schema.refuse(fmt::format("expected {}", checkpoint_schema));
}

Hash128 hash_from(const JsonReader& record) {
  const std::string& digits = record.text();
  try {
    return Hash128::from_hex(digits);
  } catch (const Error&) {
    record.refuse("expected a hash of 32 hexadecimal digits");
  }
}

json to_json(const ShardRecord& shard) { return {{"file", shard.file}, {"bytes", shard.bytes}, {"header", shard.header.hex()}}; }

ShardRecord shard_from(const JsonReader& record) {
  return {record.member("file").text(), record.member("bytes").count(), hash_from(record.member("header"))};
}

json to_json(const TensorRecord& tensor) {
  auto chunks = json::array();
  for (const auto& chunk : tensor.chunks) chunks.push_back(chunk.hex());
  return {{"name", tensor.name}, {"dtype", to_string(tensor.dtype)}, {"shape", tensor.shape}, {"shard", tensor.shard}, {"chunks", chunks}};
}

TensorRecord tensor_from(const JsonReader& record, ExitCode code) {
  TensorRecord tensor{record.member("name").text(), {}, {}, record.member("shard").text(), {}};
  for (const auto& size : record.member("shape").elements())
    tensor.shape.push_back(size.integer(0, std::numeric_limits<std::int64_t>::max()));
  const auto dtype = file_dtype_from(record.member("dtype").text());
  if (!dtype) record.refuse("dtype", "expected the dtype of a safetensors file");
  tensor.dtype = *dtype;
  for (const auto& chunk : record.member("chunks").elements()) tensor.chunks.push_back(hash_from(chunk));
  const auto bytes = bytes_of(tensor.name, tensor.dtype, tensor.shape);
  const auto expected = (bytes + hash_chunk_bytes - 1) / hash_chunk_bytes;
  MILLRACE_CHECK(tensor.chunks.size() == expected, code, checkpoint_component, "{}: tensor '{}' has {} chunk hashes, expected {}",
                 record.where(), tensor.name, tensor.chunks.size(), expected);
  return tensor;
}

std::map<std::string, std::string> texts_from(const JsonReader& record) {
  std::map<std::string, std::string> texts;
  for (const auto& [key, value] : record.object().items()) texts.emplace(key, record.member(key).text());
  return texts;
}

template <class Records>
json array_of(const Records& records) {
  auto array = json::array();
  for (const auto& record : records) array.push_back(to_json(record));
  return array;
}

void check_owners(const Manifest& manifest, const std::string& path) {
  std::set<std::string> files;
  for (const auto& shard : manifest.shards)
    MILLRACE_CHECK(shard.file.find('/') == std::string::npos && files.insert(shard.file).second, ExitCode::checkpoint, checkpoint_component,
                   "{}: '{}' is not a file name, or appears twice", path, shard.file);
  for (std::size_t index = 0; index < manifest.tensors.size(); ++index) {
    const auto& tensor = manifest.tensors[index];
    MILLRACE_CHECK(files.contains(tensor.shard), ExitCode::checkpoint, checkpoint_component, "{}: tensor '{}' is in the unlisted file '{}'",
                   path, tensor.name, tensor.shard);
    MILLRACE_CHECK(index == 0 || manifest.tensors[index - 1].name < tensor.name, ExitCode::checkpoint, checkpoint_component,
                   "{}: tensor '{}' is out of order or appears twice", path, tensor.name);
  }
}

}  // namespace

std::string ShardReport::text() const {
  const json object = {{"writer", writer}, {"writers", writers}, {"shard", to_json(shard)}, {"tensors", array_of(tensors)}};
  return object.dump();
}

ShardReport ShardReport::from_text(std::string_view text) {
  constexpr auto code = ExitCode::internal;
  constexpr auto path = "a shard report";
  const auto parsed = parse_json(text, max_depth, code, path);
  const JsonReader record(parsed, path, code);
  ShardReport report;
  report.writer = static_cast<int>(record.member("writer").count(std::numeric_limits<int>::max()));
  report.writers = static_cast<int>(record.member("writers").count(std::numeric_limits<int>::max()));
  report.shard = shard_from(record.member("shard"));
  for (const auto& tensor : record.member("tensors").elements()) report.tensors.push_back(tensor_from(tensor, code));
  return report;
}

std::string Manifest::text() const {
  const json object = {{"schema", checkpoint_schema},
                       {"step", meta.step},
                       {"consumed_samples", meta.consumed_samples},
                       {"identity", meta.identity},
                       {"notes", meta.notes},
                       {"epoch", epoch},
                       {"run", run},
                       {"state", state.hex()},
                       {"shards", array_of(shards)},
                       {"tensors", array_of(tensors)}};
  return object.dump(1) + "\n";
}

Manifest Manifest::from_text(std::string_view text, const std::string& path) {
  constexpr auto code = ExitCode::checkpoint;
  const auto parsed = parse_json(text, max_depth, code, path);
  const JsonReader record(parsed, path, code);
  check_schema(record);
  Manifest manifest;
  manifest.meta.step = record.member("step").count();
  manifest.meta.consumed_samples = record.member("consumed_samples").count();
  manifest.meta.identity = texts_from(record.member("identity"));
  manifest.meta.notes = texts_from(record.member("notes"));
  manifest.epoch = record.member("epoch").count();
  manifest.run = record.member("run").text();
  manifest.state = hash_from(record.member("state"));
  for (const auto& shard : record.member("shards").elements()) manifest.shards.push_back(shard_from(shard));
  for (const auto& tensor : record.member("tensors").elements()) manifest.tensors.push_back(tensor_from(tensor, code));
  check_owners(manifest, path);
  MILLRACE_CHECK(manifest.state_hash() == manifest.state, code, checkpoint_component, "{}: the state hash is not that of its tensors",
                 path);
  return manifest;
}

Hash128 Manifest::state_hash() const {
  StateHash hash;
  for (const auto& tensor : tensors) hash.add(tensor.name, to_string(tensor.dtype), tensor.shape, hash_of_chunks(tensor.chunks));
  return hash.digest();
}

std::string Commit::text() const {
  const json object = {
      {"schema", checkpoint_schema}, {"step", step}, {"epoch", epoch}, {"manifest_bytes", manifest_bytes}, {"manifest", manifest.hex()}};
  return object.dump() + "\n";
}

Commit Commit::from_text(std::string_view text, const std::string& path) {
  constexpr auto code = ExitCode::checkpoint;
  const auto parsed = parse_json(text, max_depth, code, path);
  const JsonReader record(parsed, path, code);
  check_schema(record);
  const Commit commit{record.member("step").count(), record.member("epoch").count(), record.member("manifest_bytes").count(),
                      hash_from(record.member("manifest"))};
  // The commit file has no hash of its own, so every byte must be as text() writes it.
  MILLRACE_CHECK(commit.text() == text, code, checkpoint_component, "{}: not as it was written", path);
  return commit;
}

std::string checkpoint_name(std::uint64_t step) { return fmt::format("step-{:08}", step); }
std::string shard_name(int writer, int writers) { return fmt::format("shard-{:05}-of-{:05}.safetensors", writer, writers); }
std::string checkpoints_folder(const std::string& run_directory) { return join_path(run_directory, "checkpoints"); }

}  // namespace millrace::runtime
