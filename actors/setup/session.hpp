#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/control/control_link.hpp"
#include "cluster/links/transport.hpp"
#include "cluster/topology.hpp"

namespace millrace::actors {

/// This process as part of its job: the MPI thread, the control link, and all ways to exit. Lives from the start of main to its
/// end.
class Session {
 public:
  /// Reads the launcher's environment, widens the affinity, and under mpirun starts MPI. Errors: Error(start).
  Session();
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  [[nodiscard]] const cluster::Launch& launch() const noexcept { return launch_; }
  [[nodiscard]] bool leads() const noexcept { return launch_.process == 0; }
  [[nodiscard]] const std::vector<int>& cores() const noexcept { return cores_; }

  /// Collective, before connect(): runs `prepare` in every process (for example to read the run description). If it throws in
  /// process 0, only that process prints the error; if it throws only elsewhere, the process in which it throws does. Never
  /// returns in these cases.
  void prepare_together(const std::function<void()>& prepare);
  /// Collective: assigns rank numbers and connects the control link. Errors: Error(usage) if the number of processes does not
  /// divide the ranks.
  void connect(int ranks, const cluster::ClusterConfig& config);

  // -- after connect() -------------------------------------------------------------------------------------------------------------------
  [[nodiscard]] const cluster::Topology& topology() const { return *topology_; }
  [[nodiscard]] cluster::Transport* transport() const noexcept { return transport_.get(); }
  [[nodiscard]] cluster::ControlLink& control() const { return *control_; }
  /// cluster.stall_ms.
  [[nodiscard]] std::chrono::milliseconds stall_limit() const noexcept { return stall_limit_; }
  /// Collective: every process gets process 0's text, at most 4096 bytes.
  [[nodiscard]] std::string broadcast(const std::string& text);

  /// The receiver of a type of messages. Set it before an agree() that precedes any such message. Called on the control thread;
  /// an empty handler removes it, and it is not running any more when this returns.
  using MessageHandler = std::function<void(int process, std::uint16_t type, std::span<const std::byte> bytes)>;
  void on_message(std::uint16_t type, MessageHandler handler);
  /// The current activity of the hosted ranks, for heartbeats; empty until ranks exist and after they are destroyed.
  void on_progress(std::function<std::size_t(std::span<cluster::Progress>)> handler);
  /// Receives the progress of other processes' ranks at each heartbeat; process 0 receives that of all. Called on the control
  /// thread. One handler per listener; an empty one removes it.
  using ProgressHandler = std::function<void(std::span<const cluster::Progress>)>;
  void on_heard(const void* listener, ProgressHandler handler);
  /// Describes which rank waits for which, for the message about a lost process. Called on the control thread.
  using WaitsHandler = std::function<std::string(std::span<const cluster::PeerFailure> lost)>;
  void on_waits(WaitsHandler handler);
  /// What the user may do after a process was lost (cluster::ControlHandlers::advice). Called on the control thread.
  void on_advice(std::function<std::string()> handler);

  /// This process cannot continue: the others are notified, one message is printed, all exit. Never returns.
  [[noreturn]] void fail(ExitCode code, const std::string& message);
  /// Collective: runs `work`, then ends in an orderly way. An exception ends the job in all processes, with its exit code; this
  /// then never returns.
  void carry_out(const std::function<void()>& work);
  /// Orderly end, collective.
  void close();

 private:
  /// Sends this process's warnings to process 0, which prints them.
  void forward_log();

  cluster::Launch launch_;
  std::vector<int> cores_;
  std::unique_ptr<cluster::Transport> transport_;
  std::unique_ptr<cluster::Topology> topology_;
  std::unique_ptr<cluster::ControlLink> control_;
  std::chrono::milliseconds stall_limit_{0};
  std::mutex mutex_;
  std::map<std::uint16_t, MessageHandler> messages_;
  std::function<std::size_t(std::span<cluster::Progress>)> progress_;
  std::map<const void*, ProgressHandler> heard_;
  WaitsHandler waits_;
  std::function<std::string()> advice_;
};

}  // namespace millrace::actors
