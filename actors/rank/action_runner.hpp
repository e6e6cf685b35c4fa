#pragma once

#include <chrono>
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

/// Computes: the program of the action's stage and pass.
class ProgramRunner : public ActionRunner {
 public:
  void run(Rank& rank, runtime::Stage& stage, const Execute& execute) override;
};

/// Waits instead, for as long as the action is said to last: for rehearsals, which run training lists and nothing else. It sleeps until
/// shortly before the end and looks at the clock from there, so that ranks may be many more than cores and an action still ends on time.
class TimedRunner : public ActionRunner {
 public:
  static constexpr std::chrono::microseconds spin{200};
  /// Of the rank's list, entry by entry.
  explicit TimedRunner(std::vector<std::chrono::nanoseconds> durations);
  void run(Rank& rank, runtime::Stage& stage, const Execute& execute) override;

 private:
  std::vector<std::chrono::nanoseconds> durations_;
};

}  // namespace millrace::actors
