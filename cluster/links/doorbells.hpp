#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

namespace millrace::cluster {

/// Wakes a transport thread from its sleep: this process's other threads ring it and, if all processes are on one host, so do the
/// other transports. MPI delivers a message into the receiver's memory silently, and a sleeping thread would notice it only at
/// the end of its sleep, so the sender rings as well. A bell is a futex word in memory that the processes share
/// (MPI_Win_allocate_shared).
class Doorbells {
 public:
  Doorbells();
  ~Doorbells();
  Doorbells(const Doorbells&) = delete;
  Doorbells& operator=(const Doorbells&) = delete;

  /// Collective over MPI_COMM_WORLD, whose processes must all be on one host; on the transport thread: shares the bells. If MPI
  /// cannot share memory, each process keeps its own bell, which only its own threads ring.
  void open();
  /// From here on this process's threads ring a private bell, so that none uses the shared one when it is freed. On that thread,
  /// some time before close().
  void withdraw() noexcept;
  /// Collective, on that thread, before MPI_Finalize.
  void close();

  /// Whether the bells are shared, so that a message ends a sleep unless MPI puts it off.
  [[nodiscard]] bool heard_by_all() const noexcept;

  /// Any thread of this process, after it has submitted something; no allocation, and a system call only if the transport listens.
  void ring() noexcept;
  /// Rings process `process` of MPI_COMM_WORLD, after something was sent to it; does nothing if bells are not shared. On the transport
  /// thread.
  void ring(int process) noexcept;

  // -- how the transport thread falls asleep: listen(), poll once more, then nap(), poll, nap() … until there is something: ignore()

  /// Rings count from here on. What was submitted before is found by the poll that follows.
  void listen() noexcept;
  [[nodiscard]] bool listens() const noexcept;
  /// Sleeps until a ring since listen() or the last nap(), at most for `longest`; then rings count anew.
  void nap(std::chrono::microseconds longest) noexcept;
  /// There is something to do: rings need not wake anybody.
  void ignore() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::cluster
