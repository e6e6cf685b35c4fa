#include "runtime/checkpoint/checkpoint_reader.hpp"

#include <algorithm>

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
  MILLRACE_CHECK(text.size() == commit.manifest_bytes, ExitCode::checkpoint, checkpoint_component, "{}: {} bytes, COMMIT says {}", path,
                 text.size(), commit.manifest_bytes);
  MILLRACE_CHECK(hash_of(text) == commit.manifest, ExitCode::checkpoint, checkpoint_component, "{}: its hash is {}, COMMIT says {}", path,
                 hash_of(text).hex(), commit.manifest.hex());
  auto manifest = Manifest::from_text(text, path);
  MILLRACE_CHECK(manifest.meta.step == commit.step && manifest.epoch == commit.epoch, ExitCode::checkpoint, checkpoint_component,
                 "{}: step {} epoch {}, but COMMIT says step {} epoch {}", path, manifest.meta.step, manifest.epoch, commit.step,
                 commit.epoch);
  return manifest;
}

std::size_t chunk_bytes(const FileTensor& tensor, std::size_t chunk) {
  return std::min<std::uint64_t>(hash_chunk_bytes, tensor.bytes() - chunk * hash_chunk_bytes);
}

}  // namespace

std::string to_string(const CheckpointProblem& problem) {
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
    MILLRACE_CHECK(bytes == shard.bytes, ExitCode::checkpoint, checkpoint_component, "{}: {} bytes, {} were committed", path, bytes,
                   shard.bytes);
    files_.emplace(shard.file, std::move(file));
  }
  for (const auto& tensor : manifest_.tensors) {
    const auto& found = file_of(tensor).at(tensor.name);
    MILLRACE_CHECK(found.dtype == tensor.dtype && found.shape == tensor.shape, ExitCode::checkpoint, checkpoint_component,
                   "{}: tensor '{}' is {} {}, {} {} was committed", join_path(folder_, tensor.shard), tensor.name, to_string(found.dtype),
                   shape_text(found.shape), to_string(tensor.dtype), shape_text(tensor.shape));
  }
}

const SafetensorsFile& CheckpointReader::file_of(const TensorRecord& tensor) const { return *files_.at(tensor.shard); }

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

Hash128 CheckpointReader::read_chunk(const TensorRecord& tensor, std::size_t chunk, std::span<std::byte> destination) const {
  const auto& file = file_of(tensor);
  file.read_bytes(file.at(tensor.name), chunk * hash_chunk_bytes, destination);
  const auto hash = hash_of(std::as_bytes(destination));
  MILLRACE_CHECK(hash == tensor.chunks[chunk], ExitCode::checkpoint, checkpoint_component,
                 "{}: tensor '{}' at byte {}: the hash of the chunk is {}, {} was committed", file.path(), tensor.name,
                 chunk * hash_chunk_bytes, hash.hex(), tensor.chunks[chunk].hex());
  return hash;
}

void CheckpointReader::read_bytes(std::string_view name, std::span<std::byte> destination) const {
  const auto& tensor = at(name);
  const auto& stored = file_of(tensor).at(name);
  MILLRACE_CHECK(stored.bytes() == destination.size(), ExitCode::checkpoint, checkpoint_component,
                 "{}: tensor '{}' {} {} has {} bytes, expected {}", folder_, name, to_string(tensor.dtype), shape_text(tensor.shape),
                 stored.bytes(), destination.size());
  for (std::size_t chunk = 0; chunk < tensor.chunks.size(); ++chunk)
    read_chunk(tensor, chunk, destination.subspan(chunk * hash_chunk_bytes, chunk_bytes(stored, chunk)));
}

void CheckpointReader::read(std::string_view name, std::span<float> destination) const {
  MILLRACE_CHECK(at(name).dtype == FileDType::f32, ExitCode::checkpoint, checkpoint_component, "{}: tensor '{}' is {}, expected F32",
                 folder_, name, to_string(at(name).dtype));
  read_bytes(name, std::as_writable_bytes(destination));
}

void CheckpointReader::drop_cache() const {
  for (const auto& [name, file] : files_) file->drop_cache();
}

Hash128 CheckpointReader::hash_data() const {
  StateHash state;
  std::vector<std::byte> scratch(hash_chunk_bytes);
  drop_cache();
  for (const auto& tensor : manifest_.tensors) {
    const auto& stored = file_of(tensor).at(tensor.name);
    std::vector<Hash128> chunks;
    for (std::size_t chunk = 0; chunk < tensor.chunks.size(); ++chunk)
      chunks.push_back(read_chunk(tensor, chunk, std::span(scratch).first(chunk_bytes(stored, chunk))));
    state.add(tensor.name, to_string(stored.dtype), stored.shape, hash_of_chunks(chunks));
  }
  return state.digest();
}

std::vector<CheckpointProblem> CheckpointReader::verify() const {
  std::vector<CheckpointProblem> problems;
  std::vector<std::byte> scratch(hash_chunk_bytes);
  drop_cache();
  for (const auto& tensor : manifest_.tensors) {
    const auto& stored = file_of(tensor).at(tensor.name);
    for (std::size_t chunk = 0; chunk < tensor.chunks.size(); ++chunk) {
      try {
        read_chunk(tensor, chunk, std::span(scratch).first(chunk_bytes(stored, chunk)));
      } catch (const Error& error) {
        if (error.code() == ExitCode::storage) throw;
        problems.push_back({tensor.shard, tensor.name, chunk * hash_chunk_bytes, error.what()});
      }
    }
  }
  return problems;
}

std::vector<CheckpointProblem> verify_checkpoint(const std::string& folder) {
  try {
    return CheckpointReader(folder).verify();
  } catch (const Error& error) {
    return {{folder, "", 0, error.what()}};
  }
}

}  // namespace millrace::runtime
