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

/// What a rank is doing, for reports of why the job ended. Fields that are −1 are omitted from messages.
struct Progress {
  std::int32_t rank = -1;
  std::int32_t stage = -1;
  std::int32_t microbatch = -1;
  std::int32_t for_ms = 0;  ///< how long it had been doing so when it was reported
  std::int64_t step = -1;
  std::array<char, 40> action{};  ///< "forward", "waits for activation", …; zero-terminated
  /// The rings of all its incoming channels of one kind: the number of occupied slots, and of all slots.
  struct Ring {
    std::int32_t tokens = 0, slots = 0;
  };
  Ring activations, gradients;
  std::int32_t peer = -1, peer_stage = -1;  ///< during a wait within a step: the rank and stage whose boundary or slot is missing
  std::int32_t finished = -1;               ///< completed actions of the training step's list; -1 outside of one
  std::int32_t wait = 0;                    ///< of a wait inside of a step: its reason, a runtime::WaitReason; 0: there is none
  std::int64_t exchange = -1;               ///< during a wait for an exchange: its number
  std::int64_t transfers = 0;               ///< during transfers between ranks that hold the same weights: how many have ended
  std::int32_t members = 0, missing = 0;    ///< of its group: how many there are, and from how many something is missing
  void set_action(std::string_view text);
};
/// "rank 2: forward, stage 3, microbatch 5, step 17".
std::string to_text(const Progress& progress);

/// A process that failed.
struct PeerFailure {
  int process = -1;
  std::string host;
  std::string reason;            ///< "its connection closed", "it was silent for 1.00 s"
  double heard_seconds_ago = 0;  ///< since its last message when it was given up
  std::vector<Progress> doing;   ///< the last report of each rank that it hosts
};
/// One message with processes, hosts, ranks and what they were doing. `waits`: which rank waited for which at that time; may be
/// empty. `advice`: ControlHandlers::advice.
std::string describe(const Topology& topology, std::span<const PeerFailure> losses, const std::string& waits = "",
                     const std::string& advice = "");
/// The same where this process itself did not run for `slept` seconds: the others were right to give it up.
std::string describe_sleep(const Topology& topology, std::span<const PeerFailure> losses, double slept, std::int64_t timeout_ms,
                           const std::string& advice = "");

/// All are called on the control thread, which also sends the heartbeats, so they must be short. All except on_message have a
/// default.
struct ControlHandlers {
  /// `bytes` is valid during the call. Messages from one process arrive in the order in which they were sent.
  std::function<void(int process, std::uint16_t type, std::span<const std::byte> bytes)> on_message;
  /// Fills in what the ranks of this process are doing and returns the number of records; called at each heartbeat.
  std::function<std::size_t(std::span<Progress>)> progress;
  /// What another process reported about its ranks in a heartbeat. Process 0 receives those of all processes, the others only
  /// that of process 0.
  std::function<void(int process, std::span<const Progress>)> heard;
  /// Describes which rank waits for which, for the message about the failure of these processes.
  std::function<std::string(std::span<const PeerFailure>)> waits;
  /// What becomes of the job after a failure and what the user may do: the last sentence of the message, without its full stop. Default:
  /// "The job ends".
  std::function<std::string()> advice;
  /// Called immediately, exactly once per failed process. Stop posting work, but do not exit yet.
  std::function<void(const PeerFailure&)> on_lost;
  /// Called once, 150 ms after the first failure (a network partition affects several processes), with all of them. `slept`: seconds for
  /// which this process itself did not run shortly before, if more than the timeout, else 0. `speak`: this process prints the message,
  /// which one that slept always does. Default: abort_job(ExitCode::peer_lost, describe(…) or describe_sleep(…), speak).
  std::function<void(const std::vector<PeerFailure>&, double slept, bool speak)> on_job_lost;
  /// Another process called report_failure. Default: abort_job(code, message, speak).
  std::function<void(ExitCode code, const std::string& message, bool speak)> on_failure;
};

/// The TCP link between the processes, which works even if MPI is broken: a star with process 0 at the centre. Every connection
/// is mutually authenticated with the job's secret, and every frame has a MAC (wire_format.hpp). A thread of its own sends
/// heartbeats in both directions, so that a busy worker does not delay them. A closed or silent connection counts as a failure of
/// the peer; process 0 notifies all others, and if process 0 itself fails, all others detect it.
class ControlLink {
 public:
  /// Joins: returns when this process is connected (for process 0: when every process is). Process 0 passes its listener. A job
  /// of one process needs no sockets: messages to itself work. Throws Error(start) with the missing processes after
  /// start_timeout_ms.
  ControlLink(const ClusterConfig& config, const Topology& topology, const Rendezvous& rendezvous, Listener* listener,
              ControlHandlers handlers);
  /// Closes without goodbye unless close() was called: to the others that is a failure.
  ~ControlLink();
  ControlLink(const ControlLink&) = delete;
  ControlLink& operator=(const ControlLink&) = delete;

  /// Sends to any process, including this one; process 0 forwards messages between others. Any thread, never blocks. At most 64
  /// MiB.
  void send(int process, std::uint16_t type, std::span<const std::byte> bytes);

  /// Collective: compares named hashes (config, plan, build, …) of all processes. If one differs, throws the same Error(start) in
  /// every process, with hash, process and host; only process 0 should print it. An empty hash is not compared: its process does
  /// not know the value. Call it before the first kernel; all processes must call it within `limit` (0: start_timeout_ms). Not
  /// from a handler.
  void agree(const std::map<std::string, std::string>& hash_by_name, std::chrono::milliseconds limit = {});
  /// The same; returns the error's text instead of throwing it, the same in every process: empty if all agree.
  [[nodiscard]] std::string compare(const std::map<std::string, std::string>& hash_by_name, std::chrono::milliseconds limit = {});

  /// Sends a heartbeat now, in addition to the periodic ones: the ranks have begun something that should appear in a failure
  /// message. Any thread, never blocks.
  void beat();

  /// This process cannot continue: all others are notified and exit with the same code. Returns whether this process has to print
  /// the message (if not, process 0 prints it); then call abort_job(code, message, that). Takes at most 0.3 s. Not from a
  /// handler.
  [[nodiscard]] bool report_failure(ExitCode code, const std::string& message);

  /// Orderly end, collective: goodbyes in both directions, after which a closed socket is not a failure. Returns false if not all
  /// processes called it within `limit`; the default is no limit, since heartbeats show whether the others still work. Not from a
  /// handler.
  bool close(std::chrono::milliseconds limit = std::chrono::hours(24 * 365));

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::cluster
