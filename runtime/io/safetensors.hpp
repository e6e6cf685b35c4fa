#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/io/file_system.hpp"
#include "runtime/io/safetensors_header.hpp"

namespace millrace::runtime {

/// A safetensors file open for reading. The header is read and checked wholly when it is opened; data are read with pread straight into the
/// caller's memory, so a file that is cut short meanwhile is an error and not a SIGBUS. Errors about the content have the code given at
/// opening and name file, tensor and byte. Thread: const functions from any number of threads.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path, ExitCode code = ExitCode::model, bool follow_links = true);

  [[nodiscard]] const std::string& path() const noexcept { return file_.path(); }
  /// In the order of the file.
  [[nodiscard]] const std::vector<FileTensor>& tensors() const noexcept { return header_.tensors; }
  [[nodiscard]] const Metadata& metadata() const noexcept { return header_.metadata; }
  [[nodiscard]] const SafetensorsHeader& header() const noexcept { return header_; }
  /// The file's first bytes up to the data, for hashing.
  [[nodiscard]] const std::string& header_bytes() const noexcept { return header_bytes_; }
  /// nullptr if there is none.
  [[nodiscard]] const FileTensor* find(std::string_view name) const noexcept;
  /// An error if there is none.
  [[nodiscard]] const FileTensor& at(std::string_view name) const;

  /// The stored bytes [offset, offset + destination.size()) of a tensor.
  void read_bytes(const FileTensor& tensor, std::uint64_t offset, std::span<std::byte> destination) const;
  /// The whole tensor as fp32 or bf16 (rounded to nearest even). An error if the number of elements differs or the stored type is no plain
  /// float.
  void read(std::string_view name, std::span<float> destination) const;
  void read(std::string_view name, std::span<kernels::BFloat16> destination) const;

  void drop_cache() const { file_.drop_cache(); }

 private:
  template <class T>
  void read_converted(std::string_view name, std::span<T> destination) const;

  ExitCode code_;
  File file_;
  std::string header_bytes_;
  SafetensorsHeader header_;
  std::vector<std::uint32_t> by_name_;  // indices of tensors_, sorted by name
};

/// A tensor in memory, to be written as it is.
struct TensorToWrite {
  std::string name;
  FileDType dtype = FileDType::f32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

/// Takes the bytes of one tensor, in as many pieces as the producer likes.
using ByteSink = std::function<void(std::span<const std::byte>)>;
/// Gives the bytes of one tensor to a sink, all of them.
using TensorProducer = std::function<void(const FileTensor& tensor, const ByteSink& sink)>;

/// Writes header and data to an open empty file, asking for one tensor after the other in the order of the file; returns the layout. Does
/// not sync. Error(internal) if a tensor's producer gives another number of bytes than its shape says.
SafetensorsLayout write_safetensors_to(File& file, std::vector<FileTensor> tensors, const Metadata& metadata,
                                       const TensorProducer& producer);

/// A whole file, atomically: temporary file, fsync, rename, fsync of the folder. What was at `path` before stays until all is on the disk.
/// Equal tensors and metadata give equal bytes, in whatever order they come. After an error the temporary file is gone, if it can be
/// removed.
void write_safetensors(const std::string& path, std::vector<FileTensor> tensors, const Metadata& metadata, const TensorProducer& producer);
void write_safetensors(const std::string& path, std::span<const TensorToWrite> tensors, const Metadata& metadata = {});

/// Descriptions of tensors in memory, for the functions above.
[[nodiscard]] std::vector<FileTensor> describe(std::span<const TensorToWrite> tensors);
/// A producer over tensors in memory; the span must live as long as it.
[[nodiscard]] TensorProducer producer_of(std::span<const TensorToWrite> tensors);

}  // namespace millrace::runtime
