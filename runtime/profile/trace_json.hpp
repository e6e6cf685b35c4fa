#pragma once

#include <string>

#include "runtime/profile/profile.hpp"

namespace millrace::runtime {

/// The profiled steps in the trace format of Chrome and Perfetto, JSON object form, one event a line; microseconds since the first profiled
/// step. A process is a rank, its threads are lanes in each of which slices nest:
///
///     compute      the actions
///     waits        what the next action waited for; within it "under way", once the token was made
///     optimizer    gradient sums, AdamW, snapshot copies
///     checkpoint   shards being written, of the ranks' process (on its first rank)
///     step         the steps, with their time by cause
///
/// An arrow goes from every token's maker to its user on another rank; counters are microbatches held and bytes alive. Clock offsets and
/// their bounds are in "otherData".
[[nodiscard]] std::string trace_json(const Profile& profile);

}  // namespace millrace::runtime
