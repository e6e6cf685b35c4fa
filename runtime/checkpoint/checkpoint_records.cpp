#include "runtime/checkpoint/checkpoint_records.hpp"

#include <set>

#include "runtime/io/file_system.hpp"
#include "runtime/io/safetensors_header.hpp"
#include "runtime/io/strict_json.hpp"

namespace millrace::runtime {
namespace {

constexpr const char* who = "runtime.checkpoint";
constexpr int max_depth = 6;
using nlohmann::json;

void check_schema(const json& object, ExitCode code, std::string_view path) {
  const auto schema = json_count(object, "schema", code, path);
  MILLRACE_CHECK(schema == checkpoint_schema, code, who, "{}: schema {}, expected {}", path, schema, checkpoint_schema);
}

Hash128 hash_from(const std::string& text, ExitCode code, std::string_view path) {
  try {
    return Hash128::from_hex(text);
  } catch (const Error& error) {
    fail(code, who, "{}: {}", path, error.what());
  }
}

json to_json(const ShardRecord& shard) { return {{"file", shard.file}, {"bytes", shard.bytes}, {"header", shard.header.hex()}}; }

ShardRecord shard_from(const json& object, ExitCode code, std::string_view path) {
  return {json_text(object, "file", code, path), json_count(object, "bytes", code, path),
          hash_from(json_text(object, "header", code, path), code, path)};
}

json to_json(const TensorRecord& tensor) {
  auto chunks = json::array();
  for (const auto& chunk : tensor.chunks) chunks.push_back(chunk.hex());
  return {{"name", tensor.name}, {"dtype", to_string(tensor.dtype)}, {"shape", tensor.shape}, {"shard", tensor.shard}, {"chunks", chunks}};
}

std::vector<std::int64_t> shape_from(const json& array, ExitCode code, std::string_view path) {
  std::vector<std::int64_t> shape;
  for (const auto& size : array) {
    MILLRACE_CHECK(size.is_number_unsigned(), code, who, "{}: a size in a shape is not a whole number", path);
    shape.push_back(size.get<std::int64_t>());
  }
  return shape;
}

TensorRecord tensor_from(const json& object, ExitCode code, std::string_view path) {
  TensorRecord tensor{json_text(object, "name", code, path),
                      {},
                      shape_from(json_array(object, "shape", code, path), code, path),
                      json_text(object, "shard", code, path),
                      {}};
  const auto dtype = file_dtype_from(json_text(object, "dtype", code, path));
  MILLRACE_CHECK(dtype.has_value(), code, who, "{}: tensor '{}' has an unknown dtype", path, tensor.name);
  tensor.dtype = *dtype;
  for (const auto& chunk : json_array(object, "chunks", code, path)) {
    MILLRACE_CHECK(chunk.is_string(), code, who, "{}: tensor '{}' has a chunk hash that is not a string", path, tensor.name);
    tensor.chunks.push_back(hash_from(chunk.get<std::string>(), code, path));
  }
  const auto bytes = bytes_of(tensor.name, tensor.dtype, tensor.shape);
  const auto expected = (bytes + hash_chunk_bytes - 1) / hash_chunk_bytes;
  MILLRACE_CHECK(tensor.chunks.size() == expected, code, who, "{}: tensor '{}' has {} chunk hashes, expected {}", path, tensor.name,
                 tensor.chunks.size(), expected);
  return tensor;
}

std::map<std::string, std::string> texts_from(const json& object, ExitCode code, std::string_view path) {
  std::map<std::string, std::string> texts;
  for (const auto& [key, value] : object.items()) {
    MILLRACE_CHECK(value.is_string(), code, who, "{}: '{}' is not a string", path, key);
    texts.emplace(key, value.get<std::string>());
  }
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
    MILLRACE_CHECK(shard.file.find('/') == std::string::npos && files.insert(shard.file).second, ExitCode::checkpoint, who,
                   "{}: '{}' is not a file name, or appears twice", path, shard.file);
  for (std::size_t index = 0; index < manifest.tensors.size(); ++index) {
    const auto& tensor = manifest.tensors[index];
    MILLRACE_CHECK(files.contains(tensor.shard), ExitCode::checkpoint, who, "{}: tensor '{}' is in the unlisted file '{}'", path,
                   tensor.name, tensor.shard);
    MILLRACE_CHECK(index == 0 || manifest.tensors[index - 1].name < tensor.name, ExitCode::checkpoint, who,
                   "{}: tensor '{}' is out of order or appears twice", path, tensor.name);
  }
}

}  // namespace

std::string ShardReport::text() const {
  const json object = {{"writer", writer}, {"writers", writers}, {"shard", to_json(shard)}, {"tensors", array_of(tensors)}};
  return object.dump();
}

ShardReport ShardReport::from_text(std::string_view text) {
  constexpr auto path = "a shard report";
  const auto object = parse_strict_json(text, max_depth, ExitCode::internal, path);
  ShardReport report;
  report.writer = static_cast<int>(json_count(object, "writer", ExitCode::internal, path));
  report.writers = static_cast<int>(json_count(object, "writers", ExitCode::internal, path));
  report.shard = shard_from(json_object(object, "shard", ExitCode::internal, path), ExitCode::internal, path);
  for (const auto& tensor : json_array(object, "tensors", ExitCode::internal, path))
    report.tensors.push_back(tensor_from(tensor, ExitCode::internal, path));
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
  const auto object = parse_strict_json(text, max_depth, code, path);
  check_schema(object, code, path);
  Manifest manifest;
  manifest.meta.step = json_count(object, "step", code, path);
  manifest.meta.consumed_samples = json_count(object, "consumed_samples", code, path);
  manifest.meta.identity = texts_from(json_object(object, "identity", code, path), code, path);
  manifest.meta.notes = texts_from(json_object(object, "notes", code, path), code, path);
  manifest.epoch = json_count(object, "epoch", code, path);
  manifest.run = json_text(object, "run", code, path);
  manifest.state = hash_from(json_text(object, "state", code, path), code, path);
  for (const auto& shard : json_array(object, "shards", code, path)) manifest.shards.push_back(shard_from(shard, code, path));
  for (const auto& tensor : json_array(object, "tensors", code, path)) manifest.tensors.push_back(tensor_from(tensor, code, path));
  check_owners(manifest, path);
  MILLRACE_CHECK(manifest.state_hash() == manifest.state, code, who, "{}: the state hash is not that of its tensors", path);
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
  const auto object = parse_strict_json(text, max_depth, code, path);
  check_schema(object, code, path);
  const Commit commit{json_count(object, "step", code, path), json_count(object, "epoch", code, path),
                      json_count(object, "manifest_bytes", code, path), hash_from(json_text(object, "manifest", code, path), code, path)};
  // The commit file has no hash of its own, so every byte must be as text() writes it.
  MILLRACE_CHECK(commit.text() == text, code, who, "{}: not as it was written", path);
  return commit;
}

std::string checkpoint_name(std::uint64_t step) { return fmt::format("step-{:08}", step); }
std::string shard_name(int writer, int writers) { return fmt::format("shard-{:05}-of-{:05}.safetensors", writer, writers); }
std::string checkpoints_folder(const std::string& run_directory) { return join_path(run_directory, "checkpoints"); }

}  // namespace millrace::runtime
