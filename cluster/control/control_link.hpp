#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/cluster_config.hpp"
#include "cluster/control/rendezvous.hpp"
#include "cluster/topology.hpp"
#include "kernels/base/check.hpp"

namespace millrace::cluster {

/// What a rank is doing, for whoever has to tell why the job ended. Fields of −1 are left out of messages.
struct Progress {
  std::int32_t rank = -1;
  std::int32_t stage = -1;
  std::int32_t microbatch = -1;
  std::int32_t for_ms = 0;  ///< how long it had been at it when it was told
  std::int64_t step = -1;
  std::array<char, 40> action{};  ///< "forward", "waits for activation", …; zero-terminated
  /// The rings of all its incoming channels of a kind: tokens that have come and are not given back, and how many fit.
  struct Ring {
    std::int32_t tokens = 0, slots = 0;
  };
  Ring activations, gradients;
  std::int32_t peer = -1, peer_stage = -1;  ///< of a wait inside of a step: whose token or slot is missing
  std::int32_t finished = -1;               ///< actions of the training step's list that are done; -1 outside of one
  std::int32_t wait = 0;                    ///< of a wait inside of a step: its reason, a runtime::WaitReason; 0: there is none
  void set_action(std::string_view text);
};
/// "rank 2: forward, stage 3, microbatch 5, step 17".
std::string to_text(const Progress& progress);

/// A process that is no more.
struct PeerFailure {
  int process = -1;
  std::string host;
  std::string reason;            ///< "its connection closed", "it was silent for 1.00 s"
  double heard_seconds_ago = 0;  ///< since its last sign of life, when it was given up
  std::vector<Progress> doing;   ///< the last it told, one per rank that it hosts
};
/// One message that names processes, hosts, ranks and what they were doing.
/// `waits`: who waited for whom then; may be empty.
std::string describe(const Topology& topology, std::span<const PeerFailure> losses, const std::string& waits = "");

/// All are called on the control thread, which also sends the heartbeats: be brief. on_message excepted, each has a default.
struct ControlHandlers {
  /// `bytes` is valid during the call. Messages from one process come in the order of their sending.
  std::function<void(int process, std::uint16_t type, std::span<const std::byte> bytes)> on_message;
  /// Fills in what the ranks of this process are doing and returns how many records; asked at each heartbeat.
  std::function<std::size_t(std::span<Progress>)> progress;
  /// What another process told of its ranks in a heartbeat. Process 0 hears of all, the others of process 0.
  std::function<void(int process, std::span<const Progress>)> heard;
  /// Who waits for whom, for the message about a loss.
  std::function<std::string()> waits;
  /// At once, exactly once per lost process. Stop posting work; do not leave yet.
  std::function<void(const PeerFailure&)> on_lost;
  /// Once, 150 ms after the first loss (a cut network takes several processes), with all of them. `speak`: this process tells the user.
  /// Default: abort_job(ExitCode::peer_lost, describe(…), speak).
  std::function<void(const std::vector<PeerFailure>&, bool speak)> on_job_lost;
  /// Another process called report_failure. Default: abort_job(code, message, speak).
  std::function<void(ExitCode code, const std::string& message, bool speak)> on_failure;
};

/// The TCP link between the processes that outlives a broken MPI: a star with process 0 in the middle. Every connection is authenticated
/// both ways by the job's secret, every frame by a MAC (wire_format.hpp). Heartbeats go both ways on a thread of its own, so a busy worker
/// does not silence them. A closed or silent connection is a loss; process 0 tells all others, and when it is lost itself all others see
/// it.
class ControlLink {
 public:
  /// Joins: returns when this process (0: every process) is connected. Process 0 passes its listener. A job of one process needs no
  /// sockets: messages to itself work. Throws Error(start), naming who is missing after start_timeout_ms.
  ControlLink(const ClusterConfig& config, const Topology& topology, const Rendezvous& rendezvous, Listener* listener,
              ControlHandlers handlers);
  /// Closes without goodbye when close() was not called: to the others that is a loss.
  ~ControlLink();
  ControlLink(const ControlLink&) = delete;
  ControlLink& operator=(const ControlLink&) = delete;

  /// To any process, this one included; between others process 0 passes it on. Any thread, never blocks. At most 64 MiB.
  void send(int process, std::uint16_t type, std::span<const std::byte> bytes);

  /// Collective: compares named hashes (config, plan, build, …) of all processes. When one differs, throws the same Error(start) in every
  /// process, naming hash, process and host; let process 0 alone print it. A hash that is empty is not compared: its process does not know.
  /// Call before the first kernel; all have to come to it within `limit` (0: start_timeout_ms). Not from a handler.
  void agree(const std::map<std::string, std::string>& hash_by_name, std::chrono::milliseconds limit = {});

  /// A heartbeat now, beside those of the clock: the ranks have begun something that the message about a loss should know. Any thread,
  /// never blocks.
  void beat();

  /// This process cannot go on: all others are told and leave with the same code. Returns whether this process has to print the message
  /// (else process 0 has taken it over); then call abort_job(code, message, that). At most 0.3 s. Not from a handler.
  [[nodiscard]] bool report_failure(ExitCode code, const std::string& message);

  /// Orderly end, collective: goodbyes both ways, after which a closed socket is no loss. False when not all came to it within `limit`; by
  /// default however long they still work, since their heartbeats tell whether they do.
  /// Not from a handler.
  bool close(std::chrono::milliseconds limit = std::chrono::hours(24 * 365));

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::cluster
