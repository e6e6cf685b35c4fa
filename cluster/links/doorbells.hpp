#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

namespace millrace::cluster {

/// What wakes a transport thread from its nap: this process's other threads and, where all processes are on one host, the transports of the
/// others. MPI puts a message into the receiver's memory without a sound, and a thread that naps would find it at the nap's end; so whoever
/// leaves something rings. A bell is a futex word in memory that the processes share (MPI_Win_allocate_shared).
class Doorbells {
 public:
  Doorbells();
  ~Doorbells();
  Doorbells(const Doorbells&) = delete;
  Doorbells& operator=(const Doorbells&) = delete;

  /// Collective over MPI_COMM_WORLD, whose processes are all on one host; on the transport thread: shares the bells. Where MPI shares no
  /// memory each process keeps its own, which only its own threads ring.
  void open();
  /// This process's threads ring a bell of its own from here on, so that none still looks at the shared one when it goes. On that thread,
  /// some time before close().
  void withdraw() noexcept;
  /// Collective, on that thread, before MPI_Finalize.
  void close();

  /// Whether the bells are shared: then naps need no end but a ring.
  [[nodiscard]] bool heard_by_all() const noexcept;

  /// Any thread of this process; no allocation, a system call only where it naps.
  void ring() noexcept;
  /// Process `process` of MPI_COMM_WORLD; nothing where bells are not shared. On the transport thread.
  void ring(int process) noexcept;

  /// How often it rang so far: read it before looking around, and nap only if nobody rang since.
  [[nodiscard]] std::uint32_t rings() const noexcept;
  void nap(std::uint32_t seen, std::chrono::microseconds longest) noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::cluster
