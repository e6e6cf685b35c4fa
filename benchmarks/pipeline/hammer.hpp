#pragma once

#include <cstdint>
#include <memory>

namespace millrace::benchmarks {

/// A child process with several connections that request /status from a server on the loopback interface as fast as possible, one
/// request after another. Must be created before this process has threads; ends with the object.
class Hammer {
 public:
  explicit Hammer(int connections);
  ~Hammer();
  Hammer(const Hammer&) = delete;
  Hammer& operator=(const Hammer&) = delete;

  /// Uses this port from now on; 0: pauses.
  void strike(int port);
  /// Number of complete responses so far.
  [[nodiscard]] std::int64_t answers() const;
  /// Processor time of the child process, user and system.
  [[nodiscard]] double cpu_seconds() const;

 private:
  struct Shared;
  Shared* shared_;
  int connections_;
  int pid_ = 0;
};

}  // namespace millrace::benchmarks
