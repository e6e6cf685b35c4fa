#pragma once

#include <cstdint>
#include <memory>

namespace millrace::benchmarks {

/// A process beside this one with several connections that ask a server of loopback for /status as fast as they can, one request after
/// another. Made before this process has threads; gone with it.
class Hammer {
 public:
  explicit Hammer(int connections);
  ~Hammer();
  Hammer(const Hammer&) = delete;
  Hammer& operator=(const Hammer&) = delete;

  /// From now on this port; 0: nothing.
  void strike(int port);
  /// Whole answers so far.
  [[nodiscard]] std::int64_t answers() const;
  /// Of the process, user and system.
  [[nodiscard]] double cpu_seconds() const;

 private:
  struct Shared;
  Shared* shared_;
  int connections_;
  int pid_ = 0;
};

}  // namespace millrace::benchmarks
