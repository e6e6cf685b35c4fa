#pragma once

#include <chrono>
#include <cstddef>
#include <string_view>

#include "cluster/topology.hpp"

namespace millrace::tools {

/// Whether stdout (descriptor 1) or stderr (2) is a terminal. mpirun gives its processes a pseudo-terminal wherever its own output
/// goes, so under mpirun the destination of mpirun's output counts.
[[nodiscard]] bool watched(const cluster::Launch& launch, int descriptor);

/// The width of the terminal that watched() has found, as it is now; 80 if it does not say. At least 1.
[[nodiscard]] std::size_t terminal_columns(const cluster::Launch& launch, int descriptor);

/// A line on stderr that is overwritten at most ten times a second, and erased at the end.
class ProgressLine {
 public:
  /// If `shown` is false, nothing is ever written.
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
