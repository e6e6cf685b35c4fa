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

/// This process among those of its job: MPI's thread, the control link, and the ways out. Lives from the start of main to its end.
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

  /// Collective, before connect(): runs `prepare` in every process (read the run description, say). Where it throws in process 0, that
  /// process alone tells; where it throws elsewhere only, that process tells. Never returns then.
  void prepare_together(const std::function<void()>& prepare);
  /// Collective: rank numbers and the control link. Errors: Error(usage) for ranks that the processes do not divide.
  void connect(int ranks, const cluster::ClusterConfig& config);

  // -- after connect() -------------------------------------------------------------------------------------------------------------------
  [[nodiscard]] const cluster::Topology& topology() const { return *topology_; }
  [[nodiscard]] cluster::Transport* transport() const noexcept { return transport_.get(); }
  [[nodiscard]] cluster::ControlLink& control() const { return *control_; }
  /// cluster.stall_ms.
  [[nodiscard]] std::chrono::milliseconds stall_limit() const noexcept { return stall_limit_; }
  /// Collective: every process gets process 0's text, at most 4096 bytes.
  [[nodiscard]] std::string broadcast(const std::string& text);

  /// Who gets the messages of a type. Set before an agree() that comes before any process sends one. Called on the control thread; an empty
  /// one takes it away, and is not running any more when this returns.
  using MessageHandler = std::function<void(int process, std::uint16_t type, std::span<const std::byte> bytes)>;
  void on_message(std::uint16_t type, MessageHandler handler);
  /// What the hosted ranks are doing, for heartbeats; empty until ranks exist and after they are gone.
  void on_progress(std::function<std::size_t(std::span<cluster::Progress>)> handler);
  /// What other processes tell of their ranks, at each heartbeat; in process 0 all do. Called on the control thread. One handler a
  /// listener; an empty one takes it away.
  using ProgressHandler = std::function<void(std::span<const cluster::Progress>)>;
  void on_heard(const void* listener, ProgressHandler handler);
  /// Who waits for whom, for the message about a lost process. Called on the control thread.
  void on_waits(std::function<std::string()> handler);

  /// This process cannot go on: the others are told, one message is printed, all leave. Never returns.
  [[noreturn]] void fail(ExitCode code, const std::string& message);
  /// Collective: runs `work`, then the orderly end. What it throws ends the job everywhere, with its own exit code; never returns then.
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
  std::function<std::string()> waits_;
};

}  // namespace millrace::actors
