#pragma once

#include <string>

#include "runtime/profile/profile.hpp"

namespace millrace::runtime {

/// The profiled steps in the trace format of Chrome and Perfetto (JSON object format, one event per line); microseconds since the
/// first profiled step. A process is a rank, its threads are lanes in each of which slices nest:
///
///     compute      the actions
///     waits        what the next action waited for; within it "under way", once the boundary was produced
///     optimizer    gradient sums, the optimizer, snapshot copies
///     checkpoint   shards that the process writes (shown on its first rank)
///     step         the steps, with their time by cause
///
/// An arrow leads from the producer of each boundary to its consumer on another rank; counters show microbatches held and bytes
/// alive. Clock offsets and their bounds are in "otherData".
[[nodiscard]] std::string trace_json(const Profile& profile);

}  // namespace millrace::runtime
