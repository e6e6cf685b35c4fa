#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>

#include "actors/run_listener.hpp"
#include "actors/telemetry/measured_run.hpp"

namespace millrace::actors {

/// A profile of the steps that a running job has just done, from the rings that are always on: no operations, which nobody timed. Asked for
/// by a signal or a request, taken by process 0's main thread while the ranks go on.
class LiveProfile : public RunListener {
 public:
  /// Of a profile; fewer where a ring does not keep so many.
  static constexpr std::size_t steps = 5;

  /// All outlive it. `gather` is process 0's.
  LiveProfile(const RunSettings& settings, const PipelinePlan& plan, const RankResources& needs, const cluster::Topology& topology,
              RecordGather& gather, const runtime::Machine& machine);

  void step(const StepRecord& record) override;
  void evaluation(std::int64_t, double, bool) override {}

  /// Any thread, a signal's handler excepted.
  void request() { wanted_ = true; }
  [[nodiscard]] bool wanted() const { return wanted_; }
  /// Whether one was asked for, and as many steps are done since this start of the run.
  [[nodiscard]] bool due() const;

  /// The last steps that every ring still has whole; nothing where that is none. Errors as RecordGather::gather.
  [[nodiscard]] std::optional<runtime::Measured> take();

 private:
  struct Done {
    std::int64_t step = 0;  // counted from 0
    double loss = 0;
  };
  const RunSettings& settings_;
  const PipelinePlan& plan_;
  const RankResources& needs_;
  const cluster::Topology& topology_;
  RecordGather& gather_;
  const runtime::Machine machine_;
  std::atomic<bool> wanted_{false};
  mutable std::mutex mutex_;
  std::deque<Done> done_;  // the last
};

}  // namespace millrace::actors
