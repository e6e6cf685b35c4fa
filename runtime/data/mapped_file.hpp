#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace millrace::runtime {

/// A file of data, read-only in memory. The file is opened once and its size taken from that descriptor. Who shortens a file while it is
/// mapped gets a bus error, as with every reader by mmap: data files are to be replaced by rename, not rewritten in place.
class MappedFile {
 public:
  /// Errors: Error(data) naming the path and the system's reason.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;  // null when the file is empty
  std::size_t size_ = 0;
};

}  // namespace millrace::runtime
