#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "actors/messages/messages.hpp"

namespace millrace::actors {

class Rank;

/// What a rank's compute worker does for an action of one of its stages. Everything around it, lists, boundaries, credits and messages, is
/// the same for every runner.
class ActionRunner {
 public:
  virtual ~ActionRunner() = default;
  /// On the worker; returns when the action is done or, on a GPU, enqueued. Throws what the action throws.
  virtual void run(Rank& rank, runtime::Stage& stage, const Execute& execute) = 0;
};

/// Computes: runs the program of the action's stage and pass.
class ProgramRunner : public ActionRunner {
 public:
  void run(Rank& rank, runtime::Stage& stage, const Execute& execute) override;
};

/// What a rehearsal does in place of an entry of a rank's list.
struct TimedEntry {
  std::chrono::nanoseconds duration{};
  struct Exchange {
    std::chrono::nanoseconds time{};  // that it occupies the rank's link to its group
    std::size_t floats = 0;           // to each of the other members, and from each
  };
  std::vector<Exchange> exchanges = {};  // that the entry posts, at its end
};

/// Waits for the given duration of the entry instead, for rehearsals, which run only training lists. It sleeps until shortly
/// before the end and then polls the clock, so that there can be many more ranks than cores and actions still end on time. Then it posts
/// the entry's exchanges, with bytes that mean nothing.
class TimedRunner : public ActionRunner {
 public:
  static constexpr std::chrono::microseconds spin{200};
  /// The entries of the rank's list, and how many members the rank's group has.
  explicit TimedRunner(std::vector<TimedEntry> entries, int members = 1);
  void run(Rank& rank, runtime::Stage& stage, const Execute& execute) override;

 private:
  static constexpr std::size_t most_under_way = 16;  // exchanges of a rank

  std::vector<TimedEntry> entries_;
  std::int64_t members_;
  std::vector<float> sent_;
  std::array<std::vector<float>, most_under_way> received_;  // used in turn
  std::size_t posted_ = 0;
  std::chrono::steady_clock::time_point link_free_;
};

}  // namespace millrace::actors
