#pragma once

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <span>

namespace millrace::runtime {

/// A data file mapped into memory read-only. The file is opened once, and its size is taken from that descriptor. A file that is
/// truncated while it is mapped cannot be read to its end; with report_lost_data() the process then prints a message and exits.
/// Replace data files by rename instead.
class MappedFile {
 public:
  /// Errors: Error(data) with the path and the system's reason.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;  // null if the file is empty
  std::size_t size_ = 0;
};

/// The element at an address of the file's bytes, which need not be aligned.
template <class T>
[[nodiscard]] T load(const std::byte* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

/// Installs a SIGBUS handler. From then on, reading bytes of a mapped file that are no longer on the disk (the file was
/// truncated, or the disk fails) ends the process with exit code `data` and a message that names the file. Other bus errors keep
/// their default action.
void report_lost_data();

}  // namespace millrace::runtime
