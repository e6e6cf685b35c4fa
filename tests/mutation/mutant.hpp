#pragma once

// Included at the top of every source that tools/mutate.py changes, in its scratch copy only. All mutants of a draw are compiled into one
// build; the environment variable MILLRACE_MUTANT chooses the one that is active in a process, and without it the program behaves as
// written.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

namespace millrace::mutation {

/// The identifier of the active mutant, 1 and up; 0: none.
inline const int active = [] {
  const char* text = std::getenv("MILLRACE_MUTANT");
  return text == nullptr ? 0 : std::atoi(text);
}();

constexpr int max_mutants = 1 << 16;

/// One byte per mutant, set when its place in the code is executed, in the file named by MILLRACE_MUTANT_REACHED; shared with
/// child processes. Null: not recorded.
inline unsigned char* const reached = []() -> unsigned char* {
  const char* path = std::getenv("MILLRACE_MUTANT_REACHED");
  if (path == nullptr) return nullptr;
  const int file = ::open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  void* memory = ::mmap(nullptr, max_mutants, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  return memory == MAP_FAILED ? nullptr : static_cast<unsigned char*>(memory);
}();

/// Whether mutant `id` is the active one. Any thread.
inline bool on(int id) {
  if (reached != nullptr) reached[id] = 1;
  return active == id;
}

}  // namespace millrace::mutation
