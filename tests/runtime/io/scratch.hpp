#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "kernels/base/check.hpp"
#include "runtime/io/fault.hpp"

namespace millrace::runtime::testing {

/// A folder that is removed afterwards; in memory if possible, since these tests sync thousands of times.
class Scratch {
 public:
  Scratch() {
    static int count = 0;
    const std::string home = access("/dev/shm", W_OK) == 0 ? "/dev/shm/" : ::testing::TempDir();
    path_ = home + "millrace-io-" + std::to_string(getpid()) + "-" + std::to_string(++count);
    std::filesystem::create_directories(path_);
  }
  ~Scratch() {
    set_file_hook({});
    set_point_hook({});
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// Bypasses the I/O seam on purpose: file operations of tests must not count as calls of the program.
inline std::string slurp(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline void spill(const std::string& path, const std::string& bytes) {
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// The message of the Error that `action` throws, after checking its code; "" and a failure if it throws none.
inline std::string error_of(ExitCode code, const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

/// A hook with a fault at call number k, once.
inline FileHook fault_at(std::uint64_t k, FileFault fault) {
  return [=](const FileCall& call) { return call.number == k ? fault : FileFault::none; };
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace millrace::runtime::testing
