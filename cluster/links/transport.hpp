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

/// The result of polling the outstanding work; it determines how the transport thread waits for the next poll.
enum class Activity {
  idle,          // nothing is posted
  listening,     // receives are posted, nothing happened
  sending,       // sends are posted too, or were a moment ago; nothing happened
  unsignalled,   // … including one whose completion no doorbell will signal
  transferring,  // a long message is in transfer: MPI moves it only during polls
  moved,         // something was posted or completed
};

/// Polled by the transport thread.
class Poller {
 public:
  virtual ~Poller() = default;
  virtual Activity poll() = 0;
};

/// The only thread of a process that calls MPI, from MPI_Init_thread to MPI_Finalize. At most one per process.
///
/// How it waits (measured on 2 cores, benchmarks/links): after activity it polls without pause for `spin_microseconds`, then
/// yields between polls (for 2 ms if the yields show that no other thread needs the core, else for 50 µs or not at all), then
/// sleeps. With as many compute threads as cores a spinning transport would take half of a stage's core, so the spin is short in
/// this case. A submission ends a sleep immediately and, if all processes are on one host, so does a message
/// (cluster/links/doorbells.hpp); with several hosts a message waits for the end of the sleep. On one host a sleep therefore
/// lasts `long_nap_microseconds`, with sends under way at most 2 ms, since MPI may have put a message off until a later poll; and while
/// all of the process's workers compute, it follows the activity directly, after one more poll. With several
/// hosts, and while a send is pending whose completion no doorbell will signal, sleeps grow from 20 µs to
/// `nap_limit_microseconds`; a poll costs a computing core 25 µs, so while all workers compute, and none waits for the result,
/// they grow to the long one. The first worker that runs out of work ends them.
class Transport {
 public:
  /// Starts the thread and MPI; returns when all processes have done so. Throws Error(start) if MPI cannot start.
  explicit Transport(const ClusterConfig& config = {});
  /// Calls finalize() unless it was called.
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  [[nodiscard]] int process() const noexcept;
  [[nodiscard]] int processes() const noexcept;
  [[nodiscard]] const std::string& host(int process) const;
  /// Whether all processes run on one host.
  [[nodiscard]] bool one_host() const noexcept;

  /// Collective: every process gets process 0's bytes. The size must be the same everywhere.
  void broadcast(std::span<std::byte> bytes);
  /// Collective. Links keep working meanwhile.
  void barrier();

  /// Runs `task` on the transport thread and returns when it is done; rethrows its exception. On that thread itself it is a plain
  /// call.
  void run(const std::function<void()>& task);
  void attach(Poller& poller);
  void detach(Poller& poller);
  /// Something was submitted: poll soon. Any thread; no allocation.
  void wake() noexcept;
  /// Something was sent to the transport of process `process`: rings it if bells are shared. On the transport thread.
  void wake(int process) noexcept;

  /// The number of threads here that receive messages and report when they compute; 0, the initial value: none reports.
  void set_workers(int workers) noexcept;
  /// One of these threads begins or ends computing. Any thread; no allocation.
  void computing(bool begins) noexcept;

  /// Called once on the transport thread if a poll throws (a mismatch, an MPI error); polling then ends. Default: abort_job with
  /// its code.
  void on_failure(std::function<void(const Error&)> handler);

  /// Collective. Calls MPI_Finalize on the transport thread and ends it. All pollers are detached.
  void finalize();

  [[nodiscard]] const MpiWorld& world() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::cluster
