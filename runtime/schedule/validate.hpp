#pragma once

#include <optional>
#include <vector>

#include "runtime/schedule/schedule.hpp"
#include "runtime/schedule/wait_graph.hpp"

namespace millrace::runtime {

/// Throws Error(config) with rank, action and rule unless
///   1. every stage and microbatch has exactly one F, on the rank that owns the stage;
///   2. each has exactly one B, or one I and later one W, in a training schedule, and none of these in a forward-only schedule;
///   3. F comes before I or B;
///   4. on one stage the microbatches ascend for F, for I and B together, and for W, so that one FIFO per edge suffices;
///   5. an overlapped pair is two actions of different microbatches, and pairs do not chain.
/// A stage of a replica needs actions only for the microbatches that the replica takes (Schedule::has).
void check_well_formed(const Schedule& schedule);

/// Replays the lists without times: an action runs when its input is there and its output edge has a free slot. A slot is taken
/// when the producing action starts. It is freed, in order, by the consumer's last use of the boundary (W or B; F in a
/// forward-only schedule), since a ring slot serves as the saved input. `depths[edge]` bounds the slots; without `depths` they
/// are unbounded. An overlapped pair is one entry and needs everything that both halves need; what is live this way is also live
/// if the halves run in order. In-order lists with FIFO channels form a marked graph, so the answer holds for all durations and
/// latencies.
[[nodiscard]] Liveness replay_untimed(const Schedule& schedule, const std::optional<std::vector<int>>& depths = std::nullopt);

/// Calls check_well_formed(), then replay_untimed(); Error(config) with the report if the schedule deadlocks.
void check_schedule(const Schedule& schedule, const std::optional<std::vector<int>>& depths = std::nullopt);

}  // namespace millrace::runtime
