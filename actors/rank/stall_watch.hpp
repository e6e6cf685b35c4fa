#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cluster/control/control_link.hpp"
#include "cluster/topology.hpp"
#include "runtime/schedule/schedule.hpp"

namespace millrace::actors {

/// Observes the progress of all ranks and reports once when a pipeline has stalled: which rank waits for which microbatch on
/// which edge, and the final cause: an action that takes long, a boundary that was produced but has not arrived, a process that
/// is silent, or a rank that waits for itself. In process 0. Any thread.
class StallWatch {
 public:
  using Clock = std::chrono::steady_clock;
  /// `schedule` is the training step's and must outlive the watch. A stall is reported after no progress for `limit`, or for 1.5
  /// times the longest pause so far if that is longer; zero disables it.
  StallWatch(const runtime::Schedule& schedule, const cluster::Topology& topology, std::chrono::milliseconds limit);

  /// The current progress of a process's ranks.
  void heard(std::span<const cluster::Progress> ranks, Clock::time_point now);
  /// The message, if there is a stall that was not reported yet.
  [[nodiscard]] std::optional<std::string> look(Clock::time_point now);
  /// "rank 1 waits for the gradient of microbatch 2 from stage 2 on rank 2 (0.9 s); …", for all ranks that wait for another, without those
  /// of processes that are lost: these wait no longer. May be empty.
  [[nodiscard]] std::string waits(Clock::time_point now, std::span<const cluster::PeerFailure> lost = {}) const;

 private:
  struct Seen {
    cluster::Progress doing;
    Clock::time_point since;  // since when it does so
    Clock::time_point heard;  // when its process last reported
    Clock::time_point made;   // when the boundary that it waits for was first seen to be produced; 0: not yet
  };
  [[nodiscard]] bool waits_in_step(const Seen& seen) const;
  [[nodiscard]] bool made(const Seen& waiter) const;
  [[nodiscard]] std::string rank_text(int rank) const;
  [[nodiscard]] std::string wait_text(const Seen& waiter, Clock::time_point now) const;
  [[nodiscard]] std::string cause_of(const Seen& waiter, Clock::time_point now) const;
  [[nodiscard]] std::string waits_text(Clock::time_point now, std::span<const cluster::PeerFailure> lost = {}) const;
  [[nodiscard]] const Seen* seen(int rank) const;

  const runtime::Schedule& schedule_;
  const cluster::Topology topology_;
  const std::chrono::milliseconds limit_;
  mutable std::mutex mutex_;
  std::map<int, Seen> ranks_;
  Clock::time_point moved_{};         // the last change of any rank
  Clock::duration longest_pause_{0};  // between two changes
  bool reported_ = false;             // a stall was reported since the last change
};

}  // namespace millrace::actors
