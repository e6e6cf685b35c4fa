#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "actors/operation_clock.hpp"
#include "actors/session.hpp"
#include "runtime/profile/profile.hpp"

namespace millrace::actors {

class Pipeline;
class Rank;

/// What the processes' ranks have recorded, in process 0. By rank, unless it says otherwise.
struct GatheredRecords {
  std::vector<runtime::RankTrace> traces;     // by process 0's clock
  std::vector<runtime::ProcessClock> clocks;  // by process
  std::vector<int> processes;
  std::vector<std::vector<OperationSum>> operations;
  std::vector<std::uint64_t> resident_bytes;  // most that the rank's process has had
};

/// Pings to each other process, whose smallest round trip gives the offset of its clock.
inline constexpr int kClockPings = 128;

/// Collective, when the ranks have stopped and before the pipeline goes: every process hands process 0 the records of its rings from
/// `first_step` on (counted from 0) over the control link; process 0 pings the others' clocks. Result in process 0. `operations` tells of a
/// hosted rank; may be empty. Takes the session's message handler. Error(peer_lost) where a process does not answer within 30 s.
[[nodiscard]] std::optional<GatheredRecords> gather_records(Session& session, Pipeline& pipeline, std::int64_t first_step,
                                                            const std::function<std::vector<OperationSum>(const Rank&)>& operations);

/// Offset and bound from round trips: each is (sent, the other's clock, received); the smallest counts. `clock.offset` is what to add to
/// the other's times. At least one.
struct RoundTrip {
  std::int64_t sent = 0, there = 0, received = 0;
};
void set_clock(runtime::ProcessClock& clock, const std::vector<RoundTrip>& trips);

}  // namespace millrace::actors
