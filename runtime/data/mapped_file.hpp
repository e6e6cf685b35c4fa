#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace millrace::runtime {

/// A file of data, read-only in memory. The file is opened once and its size taken from that descriptor. A file that is shortened while it
/// is mapped cannot be read to its end: with report_lost_data() the process then says so and ends; data files are to be replaced by rename.
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

/// From here on, a read of a mapped file's bytes that are no longer on the disk (the file was shortened, or the disk fails) ends the
/// process with exit code `data` and a message that names the file, instead of a bus error. Other bus errors stay what they are.
void report_lost_data();

}  // namespace millrace::runtime
