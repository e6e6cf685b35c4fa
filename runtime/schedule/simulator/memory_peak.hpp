#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {

/// The memory of one stage, in bytes.
struct StageBytes {
  std::int64_t held = 0;                    // of one microbatch from the start of F to the end of I or B (M_B)
  std::int64_t held_weight = 0;             // what remains of it from I to the end of W, including what I hands over (M_W)
  std::int64_t fixed = 0;                   // weights, gradients, optimizer state, rings
  std::array<std::int64_t, 4> workspace{};  // by ActionKind, only while the action runs
};

/// The memory of a rank at its peak.
struct MemoryPeak {
  struct Stage {
    StageId stage;
    int whole = 0;        // microbatches between F and I or B
    int weight_only = 0;  // microbatches between I and W
    std::int64_t bytes = 0;
  };
  std::int64_t bytes = 0;  // sum of the parts below
  // index in the rank's list at which the peak is first reached; for a pair that of its first half; -1 for an empty list
  int action = -1;
  std::vector<Stage> stages;
  std::int64_t fixed = 0;
  std::int64_t workspace = 0;
};

/// Walks the list of `rank` and tracks its memory. The halves of a pair both allocate before either frees. `bytes` is indexed by
/// StageId.
[[nodiscard]] MemoryPeak memory_peak(const Schedule& schedule, RankId rank, const std::vector<StageBytes>& bytes);

/// The peak and its parts in one line, for reports.
[[nodiscard]] std::string to_string(const MemoryPeak& peak, const Schedule& schedule, RankId rank);

/// The peak number of microbatches that a rank holds at once, from F to W or B, in microbatches of a whole rank: stashes ÷ its
/// stages of one replica.
[[nodiscard]] double microbatches_held(const Schedule& schedule, RankId rank);

}  // namespace millrace::runtime
