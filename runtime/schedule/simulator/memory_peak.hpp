#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {

/// Bytes that one stage takes.
struct StageBytes {
  std::int64_t held = 0;                    // of one microbatch from the start of F to the end of I or B (M_B)
  std::int64_t held_weight = 0;             // what of it stays, with what I hands over, to the end of W (M_W)
  std::int64_t fixed = 0;                   // weights, gradients, optimizer state, rings
  std::array<std::int64_t, 4> workspace{};  // by ActionKind, while the action runs
};

/// What a rank holds at its fullest moment.
struct MemoryPeak {
  struct Stage {
    StageId stage;
    int whole = 0;        // microbatches between F and I or B
    int weight_only = 0;  // microbatches between I and W
    std::int64_t bytes = 0;
  };
  std::int64_t bytes = 0;  // the sum of the parts below
  int action = -1;         // index in the rank's list at which it is reached first; of a pair the first half; -1 with an empty list
  std::vector<Stage> stages;
  std::int64_t fixed = 0;
  std::int64_t workspace = 0;
};

/// Walks the list of `rank` with a ledger. The halves of a pair both take their memory before either gives any back. `bytes` by StageId.
[[nodiscard]] MemoryPeak memory_peak(const Schedule& schedule, RankId rank, const std::vector<StageBytes>& bytes);

/// The peak and its parts in one line, for reports.
[[nodiscard]] std::string to_string(const MemoryPeak& peak, const Schedule& schedule, RankId rank);

/// Most microbatches that a rank holds at once, from F to W or B, in microbatches of a whole rank: stashes ÷ its stages of one replica.
[[nodiscard]] double microbatches_held(const Schedule& schedule, RankId rank);

}  // namespace millrace::runtime
