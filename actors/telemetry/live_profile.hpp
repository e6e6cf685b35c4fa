#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/run_listener.hpp"
#include "actors/telemetry/measured_run.hpp"

namespace millrace::actors {

/// A profile of the last steps of a running job, from the rings that are always on; without operations, which are not timed.
/// Requested by a signal or over HTTP, taken by process 0's main thread while the ranks continue.
class LiveProfile : public RunListener {
 public:
  /// per profile; fewer if a ring cannot hold as many
  static constexpr std::size_t steps = 5;

  /// All references must outlive this object. `gather` is process 0's.
  LiveProfile(const PipelinePlan& plan, const RankResources& needs, const cluster::Topology& topology, std::string build,
              RecordGather& gather, const runtime::Machine& machine);

  void step(const StepRecord& record) override;
  void evaluation(const EvaluationRecord&, bool) override {}

  /// Any thread, but not a signal handler.
  void request() { requested_ = true; }
  [[nodiscard]] bool requested() const { return requested_; }
  /// Whether a profile was requested, and enough steps are done since this start of the run.
  [[nodiscard]] bool due() const;

  /// The last steps that every ring still holds completely; nothing if there are none. Errors: those of RecordGather::gather().
  [[nodiscard]] std::optional<runtime::Measured> take();

 private:
  struct Done {
    std::int64_t step = 0;  // counted from 0
    double loss = 0;
    std::vector<runtime::ExpertLoad> experts;
  };
  const PipelinePlan& plan_;
  const RankResources& needs_;
  const cluster::Topology& topology_;
  const std::string build_;
  RecordGather& gather_;
  const runtime::Machine machine_;
  std::atomic<bool> requested_{false};
  mutable std::mutex mutex_;
  std::deque<Done> done_;  // the last steps
};

}  // namespace millrace::actors
