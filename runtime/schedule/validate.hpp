#pragma once

#include <optional>
#include <vector>

#include "runtime/schedule/schedule.hpp"
#include "runtime/schedule/wait_graph.hpp"

namespace millrace::runtime {

/// Throws Error(config) naming rank, action and rule unless
///   1. every stage and microbatch has exactly one F, on the rank that owns the stage;
///   2. a training schedule has for each exactly one B, or one I and later one W; a forward-only schedule has neither;
///   3. F comes before I or B;
///   4. on one stage the microbatches rise for F, for I and B together, and for W: what makes one FIFO an edge enough;
///   5. an overlapped pair is an F, then a B or I of another microbatch, and pairs do not chain.
/// A stage of a replica is asked only for the microbatches that the replica takes (Schedule::has).
void check_well_formed(const Schedule& schedule);

/// Replays the lists without times: an action runs when its token is there and its output edge has a free slot. A slot is taken when
/// the producing action starts and given back, in order, by the consumer's last use of the token (W or B; F in a forward-only
/// schedule), as rings do whose slots serve as the saved inputs. `depths[edge]` bounds the slots, nothing leaves them unbounded.
/// An overlapped pair is one entry: it needs all that both halves need. What is live so is also live where the halves run in order.
/// In-order lists with FIFO channels are a marked graph, so the answer holds for all durations and latencies.
[[nodiscard]] Liveness replay_untimed(const Schedule& schedule, const std::optional<std::vector<int>>& depths = std::nullopt);

/// check_well_formed, then replay_untimed; Error(config) with the report where the schedule is dead.
void check_schedule(const Schedule& schedule, const std::optional<std::vector<int>>& depths = std::nullopt);

}  // namespace millrace::runtime
