#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace millrace::fuzz {

/// Provides the fuzzer's bytes as a file in memory, for code that opens files by name. There is one file per process: each input
/// replaces the previous one.
class InputFile {
 public:
  InputFile() : descriptor_(::memfd_create("input", 0)), path_("/proc/self/fd/" + std::to_string(descriptor_)) {
    if (descriptor_ < 0) std::abort();
  }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile() { ::close(descriptor_); }

  const std::string& fill(const std::uint8_t* data, std::size_t size) const {
    if (::ftruncate(descriptor_, 0) != 0 || ::pwrite(descriptor_, data, size, 0) != static_cast<ssize_t>(size)) std::abort();
    return path_;
  }

 private:
  int descriptor_;
  std::string path_;
};

}  // namespace millrace::fuzz
