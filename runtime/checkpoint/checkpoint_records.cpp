#include "runtime/checkpoint/checkpoint_records.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <tuple>

#include "runtime/checkpoint/component.hpp"
#include "runtime/io/file_system.hpp"
#include "runtime/io/json_reader.hpp"
#include "runtime/io/safetensors_header.hpp"

namespace millrace::runtime {
namespace {

constexpr int max_depth = 6;
using nlohmann::json;

/// Returns the schema, which is at most `newest`.
std::uint64_t check_schema(const JsonReader& record, std::uint64_t newest) {
  const auto schema = record.member("schema");
  const std::uint64_t found = schema.count();
  if (found < checkpoint_schema || found > newest)
    schema.refuse(newest == checkpoint_schema ? fmt::format("expected {}", newest) : fmt::format("expected 1 to {}", newest));
  return found;
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
  json object = {{"name", tensor.name}, {"dtype", to_string(tensor.dtype)}, {"shape", tensor.shape}, {"chunks", chunks}};
  if (!tensor.sliced() && tensor.experts == 0) {
    object["shard"] = tensor.shard;
    return object;
  }
  auto slices = json::array();
  for (const auto& slice : tensor.slices) slices.push_back({{"shard", slice.shard}, {"first", slice.first}, {"count", slice.count}});
  if (tensor.experts > 0) object["experts"] = tensor.experts;
  object["slices"] = std::move(slices);
  return object;
}

/// "experts 0 to 1 (a.safetensors) and 4 to 7 (b.safetensors)".
std::string slices_text(const TensorRecord& tensor) {
  const std::string units = tensor.experts > 0 ? "experts" : "elements";
  std::vector<std::string> found;
  for (const auto& slice : tensor.slices)
    found.push_back(slice.count == 1 ? fmt::format("{} ({})", slice.first, slice.shard)
                                     : fmt::format("{} to {} ({})", slice.first, slice.first + slice.count - 1, slice.shard));
  return found.empty() ? "no " + units : fmt::format("{} {}", units, fmt::join(found, " and "));
}

/// Throws unless the slices are all units of the tensor, in order and each once, and begin with chunks.
void check_slices(const TensorRecord& tensor, ExitCode code, const std::string& where) {
  std::int64_t next = 0;
  bool fits = true;
  for (const auto& slice : tensor.slices) {
    const bool begins_a_chunk = tensor.experts > 0 || static_cast<std::uint64_t>(slice.first) * tensor.unit_bytes() % hash_chunk_bytes == 0;
    fits = fits && slice.first == next && begins_a_chunk;
    next = slice.first + slice.count;
  }
  MILLRACE_CHECK(fits && next == tensor.units(), code, checkpoint_component, "{}: tensor '{}' has {}, expected 0 to {}, each once{}", where,
                 tensor.name, slices_text(tensor), tensor.units() - 1,
                 tensor.experts > 0
                     ? ""
                     : fmt::format(" and from multiples of {} on", hash_chunk_bytes / std::max<std::uint64_t>(1, tensor.unit_bytes())));
}

/// The number of experts, if it is a weight of experts, and the slices of them, or of elements, that are in files.
void read_slices(const JsonReader& record, TensorRecord& tensor) {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  const std::int64_t axis = tensor.shape.empty() ? 0 : tensor.shape[0];
  if (record.object().contains("experts")) {
    const auto experts = record.member("experts");
    tensor.experts = experts.integer(1, most);
    if (tensor.experts != axis) experts.refuse(fmt::format("expected {}, the size of the tensor's first axis", axis));
  }
  const std::int64_t units = tensor.units();
  for (const auto& slice : record.member("slices").elements()) {
    const auto first = slice.member("first").integer(0, units - 1);
    tensor.slices.push_back({slice.member("shard").text(), first, slice.member("count").integer(1, units - first)});
  }
}

/// The number of chunks of what is in the files.
std::uint64_t chunk_count(const TensorRecord& tensor) {
  const auto chunks = [](std::uint64_t bytes) { return (bytes + hash_chunk_bytes - 1) / hash_chunk_bytes; };
  if (tensor.experts == 0 && !tensor.sliced()) return chunks(tensor.bytes());
  std::uint64_t count = 0;
  for (const auto& slice : tensor.slices) {
    const auto units = static_cast<std::uint64_t>(slice.count);
    count += tensor.experts > 0 ? units * chunks(tensor.unit_bytes()) : chunks(units * tensor.unit_bytes());
  }
  return count;
}

TensorRecord tensor_from(const JsonReader& record, ExitCode code) {
  TensorRecord tensor;
  tensor.name = record.member("name").text();
  for (const auto& size : record.member("shape").elements())
    tensor.shape.push_back(size.integer(0, std::numeric_limits<std::int64_t>::max()));
  const auto dtype = file_dtype_from(record.member("dtype").text());
  if (!dtype) record.refuse("dtype", "expected the dtype of a safetensors file");
  tensor.dtype = *dtype;
  if (record.object().contains("experts") || record.object().contains("slices"))
    read_slices(record, tensor);
  else
    tensor.shard = record.member("shard").text();
  for (const auto& chunk : record.member("chunks").elements()) tensor.chunks.push_back(hash_from(chunk));
  const auto expected = chunk_count(tensor);
  MILLRACE_CHECK(tensor.chunks.size() == expected, code, checkpoint_component, "{}: tensor '{}' has {} chunk hashes, expected {}",
                 record.where(), tensor.name, tensor.chunks.size(), expected);
  return tensor;
}

std::map<std::string, std::string> texts_from(const JsonReader& record) {
  std::map<std::string, std::string> texts;
  for (const auto& [key, value] : record.object().items()) texts.emplace(key, record.member(key).text());
  return texts;
}

/// The oldest version that can describe the tensors.
std::uint64_t schema_of(std::span<const TensorRecord> tensors) {
  std::uint64_t schema = checkpoint_schema;
  for (const TensorRecord& tensor : tensors)
    schema = std::max(schema, tensor.experts > 0 ? sliced_checkpoint_schema
                              : tensor.sliced()  ? divided_checkpoint_schema
                                                 : checkpoint_schema);
  return schema;
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
    const auto check_listed = [&](const std::string& file) {
      MILLRACE_CHECK(files.contains(file), ExitCode::checkpoint, checkpoint_component, "{}: tensor '{}' is in the unlisted file '{}'", path,
                     tensor.name, file);
    };
    const bool in_slices = tensor.experts > 0 || tensor.sliced();
    if (!in_slices) check_listed(tensor.shard);
    for (const auto& slice : tensor.slices) check_listed(slice.shard);
    if (in_slices) check_slices(tensor, ExitCode::checkpoint, path);
    MILLRACE_CHECK(index == 0 || manifest.tensors[index - 1].name < tensor.name, ExitCode::checkpoint, checkpoint_component,
                   "{}: tensor '{}' is out of order or appears twice", path, tensor.name);
  }
}

/// Adds the slice of another writer to a tensor.
void join(TensorRecord& tensor, TensorRecord other, const std::string& where) {
  const auto what = [](const TensorRecord& record) {
    return fmt::format("{} {}{}{}", to_string(record.dtype), shape_text(record.shape),
                       record.experts > 0 ? fmt::format(" of {} experts", record.experts) : "", record.sliced() ? "" : " in one piece");
  };
  const bool same = tensor.dtype == other.dtype && tensor.shape == other.shape && tensor.experts == other.experts;
  MILLRACE_CHECK(same && tensor.sliced() == other.sliced(), ExitCode::internal, checkpoint_component,
                 "{}: tensor '{}' is {} in one file and {} in another, expected one tensor", where, tensor.name, what(tensor), what(other));
  std::ranges::move(other.slices, std::back_inserter(tensor.slices));
  std::ranges::move(other.chunks, std::back_inserter(tensor.chunks));
}

}  // namespace

std::uint64_t TensorRecord::bytes() const { return bytes_of(name, dtype, shape); }

std::int64_t TensorRecord::units() const { return experts > 0 ? experts : static_cast<std::int64_t>(bytes() / bytes_of(name, dtype, {})); }

std::vector<std::int64_t> TensorRecord::shape_of(std::int64_t count) const {
  if (experts == 0) return {count};
  auto own = shape;
  own.at(0) = count;
  return own;
}

std::vector<TensorRecord> joined(std::vector<TensorRecord> tensors, const std::string& where) {
  const auto first = [](const TensorRecord& tensor) { return tensor.slices.empty() ? 0 : tensor.slices.front().first; };
  std::ranges::sort(tensors, [&](const TensorRecord& a, const TensorRecord& b) {
    return std::tuple(std::string_view(a.name), first(a)) < std::tuple(std::string_view(b.name), first(b));
  });
  std::vector<TensorRecord> whole;
  for (TensorRecord& tensor : tensors) {
    const bool continues = !whole.empty() && whole.back().name == tensor.name && (whole.back().sliced() || tensor.sliced());
    if (continues)
      join(whole.back(), std::move(tensor), where);
    else
      whole.push_back(std::move(tensor));
  }
  for (const TensorRecord& tensor : whole)
    if (tensor.sliced()) check_slices(tensor, ExitCode::internal, where);
  return whole;
}

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
  const json object = {{"schema", schema_of(tensors)},
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
  const auto schema = check_schema(record, divided_checkpoint_schema);
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
  for (const auto& tensor : manifest.tensors)
    MILLRACE_CHECK(schema_of(std::span(&tensor, 1)) <= schema, code, checkpoint_component,
                   "{}: tensor '{}' has slices of {}, expected none in a manifest of schema {}", path, tensor.name,
                   tensor.experts > 0 ? "experts" : "elements", schema);
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
  check_schema(record, checkpoint_schema);
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
