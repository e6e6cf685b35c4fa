#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "cluster/cluster_config.hpp"
#include "kernels/base/check.hpp"

namespace millrace::cluster {

struct MpiWorld;  // cluster/links/mpi_world.hpp

/// What a look at the outstanding work found; it decides how the transport thread waits for the next look.
enum class Activity {
  idle,          // nothing is posted
  listening,     // receives are posted, nothing happened
  sending,       // sends are posted too, nothing happened
  unheard,       // … among them one whose end no ring will tell
  transferring,  // a long message is on its way: MPI moves it only while somebody looks
  moved,         // something was posted or came to its end
};

/// Looked after by the transport thread.
class Poller {
 public:
  virtual ~Poller() = default;
  virtual Activity poll() = 0;
};

/// The one thread of a process that calls MPI, from MPI_Init_thread to MPI_Finalize. At most one in a process's life.
///
/// How it waits (measured on 2 cores, benchmarks/links): after activity it polls without pause for `spin_microseconds`, then yields between
/// polls (2 ms where its yields show that nobody else wants the core, else 50 µs or not at all), then naps. With as many compute threads as
/// cores a spinning transport would take half of a stage's core, so there the spin is short. A submission ends a nap at once and, with all
/// processes on one host, so does a message (cluster/links/doorbells.hpp); else it waits for the nap's end. So on one host naps are of
/// `long_nap_microseconds`, and while all of the process's workers compute nothing else comes before them. On several hosts, and while a
/// send is out whose end the receiver does not ring for, they grow from 20 µs to `nap_limit_microseconds`; a look costs a computing core
/// 25 µs, so while all workers compute, and nobody waits for what it would find, they grow to the long one. The first worker that runs out
/// of work ends them.
class Transport {
 public:
  /// Starts the thread and MPI; returns when all processes have. Throws Error(start) when MPI cannot start.
  explicit Transport(const ClusterConfig& config = {});
  /// finalize(), unless it was called.
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  [[nodiscard]] int process() const noexcept;
  [[nodiscard]] int processes() const noexcept;
  [[nodiscard]] const std::string& host(int process) const;
  /// Whether all processes run on one host.
  [[nodiscard]] bool one_host() const noexcept;

  /// Collective: every process gets process 0's bytes. The same size everywhere.
  void broadcast(std::span<std::byte> bytes);
  /// Collective. Links keep moving meanwhile.
  void barrier();

  /// Runs `task` on the transport thread and returns when it has; rethrows what it threw. From that thread itself: a plain call.
  void run(const std::function<void()>& task);
  void attach(Poller& poller);
  void detach(Poller& poller);
  /// Something was submitted: look soon. Any thread; no allocation.
  void wake() noexcept;
  /// Something was left for the transport of process `process`, where it can be heard. On the transport thread.
  void wake(int process) noexcept;

  /// How many threads here take what arrives and say when they compute; 0, as in the beginning: nobody says so.
  void set_workers(int workers) noexcept;
  /// One of them begins or ends to compute. Any thread; no allocation.
  void computing(bool begins) noexcept;

  /// Called on the transport thread when a poll throws (a mismatch, an MPI error), once; polling ends. Default: abort_job with its code.
  void on_failure(std::function<void(const Error&)> handler);

  /// Collective. MPI_Finalize on the transport thread, and its end. All pollers are detached.
  void finalize();

  [[nodiscard]] const MpiWorld& world() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::cluster
