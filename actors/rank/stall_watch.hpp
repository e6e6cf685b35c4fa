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

/// Watches what all ranks tell of themselves, and says once when a pipeline has come to a halt: who waits for which microbatch on which
/// edge, and what they all wait for in the end: an action that takes long, a token that was made and has not come, a process that is
/// silent, a rank that waits for itself. Process 0's. Any thread.
class StallWatch {
 public:
  using Clock = std::chrono::steady_clock;
  /// `schedule` is the training step's and outlives the watch. Nothing may move for `limit`, or for half as long again as the longest
  /// pause so far, where that is longer, before a stall is told; zero: none is.
  StallWatch(const runtime::Schedule& schedule, const cluster::Topology& topology, std::chrono::milliseconds limit);

  /// What a process tells of its ranks now.
  void heard(std::span<const cluster::Progress> ranks, Clock::time_point now);
  /// The message, when something takes too long and it has not been told yet.
  [[nodiscard]] std::optional<std::string> look(Clock::time_point now);
  /// "rank 1 waits for the gradient of microbatch 2 from stage 2 on rank 2 (0.9 s); …", of all ranks that wait for another; may be empty.
  [[nodiscard]] std::string waits(Clock::time_point now) const;

 private:
  struct Seen {
    cluster::Progress doing;
    Clock::time_point since;  // it does so
    Clock::time_point heard;  // the last time that its process told anything
    Clock::time_point made;   // the token that it waits for was first seen made; 0: it was not
  };
  [[nodiscard]] bool waits_in_step(const Seen& seen) const;
  [[nodiscard]] bool made(const Seen& waiter) const;
  [[nodiscard]] std::string wait_text(const Seen& waiter, Clock::time_point now) const;
  [[nodiscard]] std::string cause_of(const Seen& waiter, Clock::time_point now) const;
  [[nodiscard]] std::string waits_text(Clock::time_point now) const;
  [[nodiscard]] const Seen* seen(int rank) const;

  const runtime::Schedule& schedule_;
  const cluster::Topology topology_;
  const std::chrono::milliseconds limit_;
  mutable std::mutex mutex_;
  std::map<int, Seen> ranks_;
  Clock::time_point moved_{};         // the last change of any rank
  Clock::duration longest_pause_{0};  // between two changes
  bool told_ = false;                 // since the last change
};

}  // namespace millrace::actors
