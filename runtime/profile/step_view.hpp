#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/engine/exchange_record.hpp"
#include "runtime/engine/trace.hpp"
#include "runtime/engine/transfer_record.hpp"
#include "runtime/schedule/causality.hpp"
#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {

/// The contents of one rank's trace rings, in nanoseconds of process 0's steady clock.
struct RankTrace {
  RankId rank;
  std::vector<TraceRecord> compute;     // the compute worker's lane
  std::vector<TraceRecord> checkpoint;  // its process's checkpoint lane; only the first rank of a process has it
  std::vector<ExchangeRecord> exchanges = {};
  std::vector<TransferRecord> transfers = {};
};

/// One step of all ranks, in the time base of RankTrace.
struct StepView {
  struct Rank {
    std::vector<TraceRecord> actions;                // actions[i] is entry i of the rank's list, from its first segment to its last
    std::vector<std::vector<TraceRecord>> segments;  // of actions[i], in order: one where no exchange divides it
    std::vector<TraceRecord> waits;                  // sorted by time
    // optimizer (with gradient sums and their squares) and snapshots made during the step; sorted by time
    std::vector<TraceRecord> others;
    std::vector<ExchangeRecord> exchanges;  // in the order in which the rank posted them
    std::vector<TransferRecord> transfers;  // the same
  };
  StepId step;
  std::int64_t begin = 0;      // when the first rank receives the step
  std::int64_t end = 0;        // when the last rank has updated its parameters
  std::int64_t lists_end = 0;  // when the last action of all ranks has ended
  std::vector<Rank> ranks;
  [[nodiscard]] std::int64_t duration() const { return end - begin; }
};

/// Extracts a training step from the ranks' records and skips the evaluation before it, which is recorded under the same number;
/// `traces` is indexed by rank. Error(config) if a rank's ring has overwritten records of the step, so that the rest do not match
/// its list of the schedule.
[[nodiscard]] StepView view_of(const Schedule& schedule, std::span<const RankTrace> traces, StepId step);

/// Whether the records contain all actions of the step, so that view_of() succeeds.
[[nodiscard]] bool is_whole(const Schedule& schedule, std::span<const RankTrace> traces, StepId step);

/// Milliseconds that these segments of an action computed, without the waits between them.
[[nodiscard]] double computing(std::span<const TraceRecord> segments);

/// An input of an action: the action that produced it, and the time at which this producer ended.
struct ProducedBoundary {
  ActionPlace maker;
  std::int64_t produced = 0;
};

/// The producer of the boundary that this action consumes; nothing for an action that consumes none.
[[nodiscard]] std::optional<ProducedBoundary> boundary_of(const ActionTable& table, const StepView& view, const Action& action);

/// The boundary that this wait was for; nothing for a wait for something else.
[[nodiscard]] std::optional<ProducedBoundary> waited_boundary(const Schedule& schedule, const ActionTable& table, const StepView& view,
                                                              const TraceRecord& wait);

/// The time within this wait at which its boundary was produced. Until then the rank waited for the producer, and then for the transfer.
[[nodiscard]] std::int64_t produced_within(const Schedule& schedule, const ActionTable& table, const StepView& view,
                                           const TraceRecord& wait);

}  // namespace millrace::runtime
