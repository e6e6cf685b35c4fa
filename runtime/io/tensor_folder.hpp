#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/io/safetensors.hpp"

namespace millrace::runtime {

/// A tensor that a model expects.
struct ExpectedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
};

/// The tensors of a model folder as one list: model.safetensors, or the files of model.safetensors.index.json. Opening checks
/// everything: file names are plain names within the folder, every listed tensor is in its file and in no other, no file has an
/// unlisted tensor, total_size is the sum. Links may lead into a Hugging Face cache's blobs folder, not elsewhere. Errors have
/// the exit code given and name file and tensor. Thread: const functions from any number of threads.
class TensorSource {
 public:
  /// Opens a folder, or one .safetensors file.
  explicit TensorSource(const std::string& path, ExitCode code = ExitCode::model);

  /// The folder or file, for messages.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// In byte order.
  [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }
  [[nodiscard]] bool has(std::string_view name) const noexcept { return owner_.find(name) != owner_.end(); }
  /// The tensor of this name; throws if there is none.
  [[nodiscard]] const FileTensor& at(std::string_view name) const;
  /// Sum of the sizes of all tensors, in bytes.
  [[nodiscard]] std::uint64_t total_bytes() const noexcept { return total_bytes_; }

  void read(std::string_view name, std::span<float> destination) const;
  void read(std::string_view name, std::span<kernels::BFloat16> destination) const;
  /// Reads elements [first, first + destination.size()) as fp32.
  void read_part(std::string_view name, std::uint64_t first, std::span<float> destination) const;
  /// Reads the bytes as stored.
  void read_bytes(std::string_view name, std::uint64_t offset, std::span<std::byte> destination) const;

  /// Throws one error that names every tensor that is missing, unexpected or of another shape (the first ten of each kind, and
  /// how many more). Names in `ignored` may exist or not.
  void check(std::span<const ExpectedTensor> expected, std::span<const std::string> ignored = {}) const;

 private:
  void open_single(const std::string& path);
  void open_index(const std::string& folder, const std::string& index_path);
  void adopt(std::unique_ptr<SafetensorsFile> file);
  [[nodiscard]] const SafetensorsFile& file_of(std::string_view name) const;

  std::string path_;
  ExitCode code_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, const SafetensorsFile*, std::less<>> owner_;
  std::vector<std::string> names_;
  std::uint64_t total_bytes_ = 0;
};

/// Writes model.safetensors or, if that would have more than `max_shard_bytes` of data, model-00001-of-0000N.safetensors … and
/// their index; each file atomically, the index last. Tensors fill the shards in byte order of their names; a tensor larger than
/// a shard gets a shard of its own. Shards and index of an earlier export that are no longer needed are removed. The folder is
/// created if it does not exist.
void write_tensor_folder(const std::string& folder, std::vector<FileTensor> tensors, const Metadata& metadata,
                         const TensorProducer& producer, std::uint64_t max_shard_bytes = 5'000'000'000);

}  // namespace millrace::runtime
