#include "runtime/checkpoint/checkpoint_reader.hpp"

#include <algorithm>

#include "kernels/base/count.hpp"
#include "kernels/base/without_component.hpp"
#include "runtime/checkpoint/component.hpp"

namespace millrace::runtime {
namespace {

constexpr std::uint64_t max_commit_bytes = 4096;
constexpr std::uint64_t max_manifest_bytes = std::uint64_t{1} << 30;

Manifest read_manifest(const std::string& folder) {
  const auto commit_path = join_path(folder, commit_name);
  MILLRACE_CHECK(kind_of(folder) != PathKind::missing, ExitCode::checkpoint, checkpoint_component, "{}: no such folder", folder);
  const auto commit = Commit::from_text(read_text_file(commit_path, max_commit_bytes, ExitCode::checkpoint, false), commit_path);
  const auto path = join_path(folder, manifest_name);
  const auto text = read_text_file(path, max_manifest_bytes, ExitCode::checkpoint, false);
  MILLRACE_CHECK(text.size() == commit.manifest_bytes, ExitCode::checkpoint, checkpoint_component, "{}: {}, COMMIT says {}", path,
                 byte_count(text.size()), commit.manifest_bytes);
  MILLRACE_CHECK(hash_of(text) == commit.manifest, ExitCode::checkpoint, checkpoint_component, "{}: its hash is {}, COMMIT says {}", path,
                 hash_of(text).hex(), commit.manifest.hex());
  auto manifest = Manifest::from_text(text, path);
  MILLRACE_CHECK(manifest.meta.step == commit.step && manifest.epoch == commit.epoch, ExitCode::checkpoint, checkpoint_component,
                 "{}: step {} epoch {}, but COMMIT says step {} epoch {}", path, manifest.meta.step, manifest.epoch, commit.step,
                 commit.epoch);
  return manifest;
}

std::vector<ChunkRange> chunks_of(const TensorRecord& tensor) {
  return chunk_ranges(tensor.bytes(), static_cast<std::uint64_t>(tensor.parts()));
}

/// The file that has byte `offset` of the whole tensor, and where in the file's tensor it is.
std::pair<const std::string&, std::uint64_t> place_of(const TensorRecord& tensor, std::uint64_t offset) {
  if (!tensor.sliced()) return {tensor.shard, offset};
  const std::uint64_t each = tensor.unit_bytes();
  const auto begin = [each](const TensorSlice& slice) { return static_cast<std::uint64_t>(slice.first) * each; };
  const auto after = std::ranges::upper_bound(tensor.slices, offset, {}, begin);
  const TensorSlice& slice = *(after - 1);
  return {slice.shard, offset - begin(slice)};
}

}  // namespace

std::string to_string(const CheckpointProblem& problem) {
  if (problem.what.find(problem.file) != std::string::npos) return problem.what;  // it says where
  if (problem.tensor.empty()) return fmt::format("{}: {}", problem.file, problem.what);
  return fmt::format("{}: tensor '{}' at byte {}: {}", problem.file, problem.tensor, problem.offset, problem.what);
}

CheckpointReader::CheckpointReader(const std::string& folder) : folder_(folder), manifest_(read_manifest(folder)) { open_shards(); }

void CheckpointReader::open_shards() {
  for (const auto& shard : manifest_.shards) {
    const auto path = join_path(folder_, shard.file);
    auto file = std::make_unique<SafetensorsFile>(path, ExitCode::checkpoint, false);
    MILLRACE_CHECK(hash_of(file->header_bytes()) == shard.header, ExitCode::checkpoint, checkpoint_component,
                   "{}: its header is not the one that was committed", path);
    const auto bytes = file->header().data_offset + (file->tensors().empty() ? 0 : file->tensors().back().end);
    MILLRACE_CHECK(bytes == shard.bytes, ExitCode::checkpoint, checkpoint_component, "{}: {}, {} were committed", path, byte_count(bytes),
                   shard.bytes);
    files_.emplace(shard.file, std::move(file));
  }
  const auto check = [this](const TensorRecord& tensor, const std::string& shard, const std::vector<std::int64_t>& shape) {
    const auto& found = files_.at(shard)->at(tensor.name);
    MILLRACE_CHECK(found.dtype == tensor.dtype && found.shape == shape, ExitCode::checkpoint, checkpoint_component,
                   "{}: tensor '{}' is {} {}, {} {} was committed", join_path(folder_, shard), tensor.name, to_string(found.dtype),
                   shape_text(found.shape), to_string(tensor.dtype), shape_text(shape));
  };
  for (const auto& tensor : manifest_.tensors) {
    if (!tensor.sliced()) check(tensor, tensor.shard, tensor.shape);
    for (const auto& slice : tensor.slices) check(tensor, slice.shard, tensor.shape_of(slice.count));
  }
}

const TensorRecord* CheckpointReader::find(std::string_view name) const noexcept {
  const auto& tensors = manifest_.tensors;
  const auto place = std::lower_bound(tensors.begin(), tensors.end(), name, [](const auto& tensor, auto key) { return tensor.name < key; });
  return place != tensors.end() && place->name == name ? &*place : nullptr;
}

const TensorRecord& CheckpointReader::at(std::string_view name) const {
  const auto* tensor = find(name);
  MILLRACE_CHECK(tensor != nullptr, ExitCode::checkpoint, checkpoint_component, "{}: there is no tensor '{}'", folder_, name);
  return *tensor;
}

Hash128 CheckpointReader::read_chunk(const TensorRecord& tensor, std::size_t chunk, const ChunkRange& range,
                                     std::span<std::byte> destination) const {
  const auto [shard, offset] = place_of(tensor, range.offset);
  const auto& file = *files_.at(shard);
  file.read_bytes(file.at(tensor.name), offset, destination);
  const auto hash = hash_of(std::as_bytes(destination));
  MILLRACE_CHECK(hash == tensor.chunks[chunk], ExitCode::checkpoint, checkpoint_component,
                 "{}: tensor '{}' at byte {}: the hash of the chunk is {}, {} was committed", file.path(), tensor.name, range.offset,
                 hash.hex(), tensor.chunks[chunk].hex());
  return hash;
}

void CheckpointReader::read_bytes(std::string_view name, std::span<std::byte> destination, const TensorPart& part) const {
  const auto& tensor = at(name);
  const auto whole = static_cast<std::uint64_t>(part.whole);
  const std::uint64_t bytes = tensor.bytes(), each = bytes / whole;
  const std::uint64_t begin = static_cast<std::uint64_t>(part.first) * each, end = begin + static_cast<std::uint64_t>(part.count) * each;
  MILLRACE_CHECK(bytes % whole == 0 && end - begin == destination.size(), ExitCode::checkpoint, checkpoint_component,
                 "{}: tensor '{}' {} {} has {} bytes{}, expected {}", folder_, name, to_string(tensor.dtype), shape_text(tensor.shape),
                 end - begin, part.whole == 1 ? "" : fmt::format(" in {} of {} parts", part.count, part.whole), destination.size());
  const auto ranges = chunks_of(tensor);
  std::vector<std::byte> scratch;
  for (std::size_t chunk = 0; chunk < ranges.size(); ++chunk) {
    const ChunkRange& range = ranges[chunk];
    const std::uint64_t first = std::max(begin, range.offset), last = std::min(end, range.offset + range.bytes);
    if (first >= last) continue;
    const auto place = destination.subspan(first - begin, last - first);
    if (place.size() == range.bytes) {
      read_chunk(tensor, chunk, range, place);
      continue;
    }
    scratch.resize(range.bytes);
    read_chunk(tensor, chunk, range, scratch);
    std::ranges::copy(std::span(scratch).subspan(first - range.offset, place.size()), place.begin());
  }
}

void CheckpointReader::read(std::string_view name, std::span<float> destination, const TensorPart& part) const {
  MILLRACE_CHECK(at(name).dtype == FileDType::f32, ExitCode::checkpoint, checkpoint_component, "{}: tensor '{}' is {}, expected F32",
                 folder_, name, to_string(at(name).dtype));
  read_bytes(name, std::as_writable_bytes(destination), part);
}

void CheckpointReader::drop_cache() const {
  for (const auto& [name, file] : files_) file->drop_cache();
}

Hash128 CheckpointReader::hash_data() const {
  StateHash state;
  std::vector<std::byte> scratch(hash_chunk_bytes);
  drop_cache();
  for (const auto& tensor : manifest_.tensors) {
    const auto ranges = chunks_of(tensor);
    std::vector<Hash128> chunks;
    for (std::size_t chunk = 0; chunk < ranges.size(); ++chunk)
      chunks.push_back(read_chunk(tensor, chunk, ranges[chunk], std::span(scratch).first(ranges[chunk].bytes)));
    state.add(tensor.name, to_string(tensor.dtype), tensor.shape, hash_of_chunks(chunks));
  }
  return state.digest();
}

std::vector<CheckpointProblem> CheckpointReader::verify() const {
  std::vector<CheckpointProblem> problems;
  std::vector<std::byte> scratch(hash_chunk_bytes);
  drop_cache();
  for (const auto& tensor : manifest_.tensors) {
    const auto ranges = chunks_of(tensor);
    for (std::size_t chunk = 0; chunk < ranges.size(); ++chunk) {
      try {
        read_chunk(tensor, chunk, ranges[chunk], std::span(scratch).first(ranges[chunk].bytes));
      } catch (const Error& error) {
        if (error.code() == ExitCode::storage) throw;
        problems.push_back({place_of(tensor, ranges[chunk].offset).first, tensor.name, ranges[chunk].offset,
                            std::string(without_component(error.what()))});
      }
    }
  }
  return problems;
}

std::vector<CheckpointProblem> verify_checkpoint(const std::string& folder) {
  try {
    return CheckpointReader(folder).verify();
  } catch (const Error& error) {
    return {{folder, "", 0, std::string(without_component(error.what()))}};
  }
}

}  // namespace millrace::runtime
