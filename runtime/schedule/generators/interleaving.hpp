#pragma once

#include <vector>

namespace millrace::runtime {

/// The group size N of interleaved schedules, after a check that P ≤ N ≤ M and that M mod N = 0 or ≥ P; with a smaller group a
/// chunk would starve while its input is still travelling around the ranks. With one chunk nothing is interleaved and any N is
/// valid. Error(config) with the nearest legal N and M. `name` is the schedule's name, for the message.
[[nodiscard]] int checked_group(const char* name, int ranks, int chunks, int microbatches, int group);

/// The chunk of each forward of a rank, the same for all ranks: microbatches go in groups of N (the last may be smaller), each
/// group through all chunks before the next begins. The k-th backward takes chunk V−1−order[k].
[[nodiscard]] std::vector<int> interleaved_order(int chunks, int microbatches, int group);

}  // namespace millrace::runtime
