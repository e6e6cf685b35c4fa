#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/engine/trace.hpp"
#include "runtime/schedule/causality.hpp"
#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {

/// What one rank's rings held, in nanoseconds of process 0's steady clock.
struct RankTrace {
  RankId rank;
  std::vector<TraceRecord> compute;     // of the compute worker's lane
  std::vector<TraceRecord> checkpoint;  // of its process's checkpoint lane; only the first rank of a process has it
};

/// One step of all ranks. Times as RankTrace has them.
struct StepView {
  struct Rank {
    std::vector<TraceRecord> actions;  // actions[i] is entry i of the rank's list
    std::vector<TraceRecord> waits;    // in order
    std::vector<TraceRecord> others;   // optimizer, with gradient sums and their squares, and snapshots made meanwhile; in order
  };
  StepId step;
  std::int64_t begin = 0;      // the first rank is told to run the step
  std::int64_t end = 0;        // the last one has updated
  std::int64_t lists_end = 0;  // the last action of all ranks has ended
  std::vector<Rank> ranks;
  [[nodiscard]] std::int64_t duration() const { return end - begin; }
};

/// The training step as the ranks' records tell it, and not the evaluation before it, which has its number; `traces` by rank. Error(config)
/// where a rank's records are not exactly its list of the schedule: its ring has overwritten some.
[[nodiscard]] StepView view_of(const Schedule& schedule, std::span<const RankTrace> traces, StepId step);

/// Whether the records have all actions of the step: view_of() will find its list.
[[nodiscard]] bool is_whole(const Schedule& schedule, std::span<const RankTrace> traces, StepId step);

/// A token that an action waited for: which action made it, and when that ended.
struct MadeToken {
  ActionPlace maker;
  std::int64_t produced = 0;
};

/// Who made the token that this action takes; nothing for one that takes none.
[[nodiscard]] std::optional<MadeToken> token_of(const ActionTable& table, const StepView& view, const Action& action);

/// The token that this wait was for; nothing for a wait for something else.
[[nodiscard]] std::optional<MadeToken> waited_token(const Schedule& schedule, const ActionTable& table, const StepView& view,
                                                    const TraceRecord& wait);

/// When the token of this wait was made, between its begin and its end: all before it is the maker's, all after it the way's.
[[nodiscard]] std::int64_t produced_within(const Schedule& schedule, const ActionTable& table, const StepView& view,
                                           const TraceRecord& wait);

}  // namespace millrace::runtime
