#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/io/file_system.hpp"
#include "runtime/io/safetensors_header.hpp"

namespace millrace::runtime {

/// A safetensors file open for reading. Opening reads and checks the whole header; data are read with pread directly into the
/// caller's memory, so that a file that is truncated meanwhile causes an error and not a SIGBUS. Errors about the content have
/// the exit code given at opening and name file, tensor and byte. Thread: const functions from any number of threads.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path, ExitCode code = ExitCode::model, bool follow_links = true);

  [[nodiscard]] const std::string& path() const noexcept { return file_.path(); }
  /// In file order.
  [[nodiscard]] const std::vector<FileTensor>& tensors() const noexcept { return header_.tensors; }
  [[nodiscard]] const Metadata& metadata() const noexcept { return header_.metadata; }
  [[nodiscard]] const SafetensorsHeader& header() const noexcept { return header_; }
  /// The bytes before the data, for hashing.
  [[nodiscard]] const std::string& header_bytes() const noexcept { return header_bytes_; }
  /// The tensor of this name; nullptr if there is none.
  [[nodiscard]] const FileTensor* find(std::string_view name) const noexcept;
  /// The tensor of this name; throws if there is none.
  [[nodiscard]] const FileTensor& at(std::string_view name) const;

  /// Reads the stored bytes [offset, offset + destination.size()) of a tensor.
  void read_bytes(const FileTensor& tensor, std::uint64_t offset, std::span<std::byte> destination) const;
  /// Reads the whole tensor as fp32 or bf16 (rounded to nearest even). Throws if the number of elements differs or the stored
  /// type is not a plain float.
  void read(std::string_view name, std::span<float> destination) const;
  void read(std::string_view name, std::span<kernels::BFloat16> destination) const;
  /// Reads elements [first, first + destination.size()) of the tensor as fp32. Throws if it has fewer.
  void read_part(std::string_view name, std::uint64_t first, std::span<float> destination) const;

  void drop_cache() const { file_.drop_cache(); }

 private:
  template <class T>
  void read_whole(std::string_view name, std::span<T> destination) const;
  template <class T>
  void read_converted(const FileTensor& tensor, std::uint64_t begin, std::span<T> destination) const;

  ExitCode code_;
  File file_;
  std::string header_bytes_;
  SafetensorsHeader header_;
  std::vector<std::uint32_t> by_name_;  // indices into tensors_, sorted by name
};

/// A tensor in memory that is written as it is.
struct TensorToWrite {
  std::string name;
  FileDType dtype = FileDType::f32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

/// Receives the bytes of one tensor, in as many pieces as the producer likes.
using ByteSink = std::function<void(std::span<const std::byte>)>;
/// Passes all bytes of one tensor to a sink.
using TensorProducer = std::function<void(const FileTensor& tensor, const ByteSink& sink)>;

/// Writes header and data to an open empty file, requesting one tensor after the other in file order; returns the layout. Does
/// not sync. Error(internal) if a tensor's producer passes another number of bytes than its shape implies.
SafetensorsLayout write_safetensors_to(File& file, std::vector<FileTensor> tensors, const Metadata& metadata,
                                       const TensorProducer& producer);

/// Writes a whole file atomically: temporary file, fsync, rename, fsync of the folder. An existing file at `path` stays until
/// everything is on the disk. Equal tensors and metadata give equal bytes, in whatever order they are passed. After an error the
/// temporary file is removed if possible.
void write_safetensors(const std::string& path, std::vector<FileTensor> tensors, const Metadata& metadata, const TensorProducer& producer);
void write_safetensors(const std::string& path, std::span<const TensorToWrite> tensors, const Metadata& metadata = {});

/// Describes tensors in memory, for the functions above.
[[nodiscard]] std::vector<FileTensor> describe(std::span<const TensorToWrite> tensors);
/// A producer over tensors in memory; the span must outlive it.
[[nodiscard]] TensorProducer producer_of(std::span<const TensorToWrite> tensors);

}  // namespace millrace::runtime
