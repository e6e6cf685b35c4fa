#pragma once

#include <vector>

namespace millrace::runtime {

/// The group size N of interleaved schedules, checked: P ≤ N ≤ M and M mod N = 0 or ≥ P, for with a smaller group a chunk would starve
/// while its input is still on the way round the ranks. With one chunk there is nothing to interleave and any N is as good.
/// Error(config) naming the nearest legal N and M. `name`: the schedule's, for the message.
[[nodiscard]] int checked_group(const char* name, int ranks, int chunks, int microbatches, int group);

/// The chunk of each forward of a rank, all ranks alike: microbatches go in groups of N (the last may be smaller), each group through
/// all chunks before the next begins. The k-th backward takes chunk V−1−order[k].
[[nodiscard]] std::vector<int> interleaved_order(int chunks, int microbatches, int group);

}  // namespace millrace::runtime
