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

/// Computes: runs the program of the action's stage and pass.
class ProgramRunner : public ActionRunner {
 public:
  void run(Rank& rank, runtime::Stage& stage, const Execute& execute) override;
};

/// Waits for the given duration of the action instead, for rehearsals, which run only training lists. It sleeps until shortly
/// before the end and then polls the clock, so that there can be many more ranks than cores and actions still end on time.
class TimedRunner : public ActionRunner {
 public:
  static constexpr std::chrono::microseconds spin{200};
  /// The durations of the rank's list, by entry.
  explicit TimedRunner(std::vector<std::chrono::nanoseconds> durations);
  void run(Rank& rank, runtime::Stage& stage, const Execute& execute) override;

 private:
  std::vector<std::chrono::nanoseconds> durations_;
};

}  // namespace millrace::actors
