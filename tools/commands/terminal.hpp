#pragma once

#include <chrono>
#include <string_view>

#include "cluster/topology.hpp"

namespace millrace::tools {

/// Whether a person watches stdout (descriptor 1) or stderr (2). mpirun gives its processes a terminal of their own whatever its output
/// goes to, so there its output decides.
[[nodiscard]] bool watched(const cluster::Launch& launch, int descriptor);

/// A line on stderr that is written over again and again, at most ten times a second, and wiped in the end.
class ProgressLine {
 public:
  /// `shown` false: nothing is ever written.
  explicit ProgressLine(bool shown) : shown_(shown) {}
  ~ProgressLine() { wipe(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(std::string_view text);
  void wipe();

 private:
  bool shown_, there_ = false;
  std::chrono::steady_clock::time_point newest_;
};

}  // namespace millrace::tools
