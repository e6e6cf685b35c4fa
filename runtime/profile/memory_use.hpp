#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/engine/rank_compute.hpp"
#include "runtime/profile/step_view.hpp"

namespace millrace::runtime {

/// Bytes under a name.
using NamedBytes = std::pair<std::string, std::int64_t>;

/// What one microbatch holds on a stage, by the labels of the values.
struct StageMemory {
  StageId stage;
  std::vector<NamedBytes> stash_input;      // from the begin of F to the end of I or B
  std::vector<NamedBytes> stash_weight;     // from the begin of F to the end of W or B
  std::vector<NamedBytes> handoff;          // from the begin of I to the end of W
  std::array<std::int64_t, 4> workspace{};  // by ActionKind, while the action runs
};

/// The arena of a rank: what it is cut into, and how much of it a step uses at a time.
struct MemoryOfRank {
  std::int64_t planned = 0;         // the arena
  std::int64_t resident = 0;        // most that its whole process has had, with all ranks in it
  int on_device = -1;               // the GPU that it is on; −1: none, and the next two are 0
  std::int64_t device_planned = 0;  // of that GPU: the ranks of its process there, with their queues
  std::int64_t device = 0;          // … and how much more is in use there than before they were built, by whomever
  std::vector<NamedBytes> sections;
  std::vector<NamedBytes> fixed;    // of the sections, what is in use all the time
  std::vector<StageMemory> stages;  // of the rank
};

/// From the plans of a rank's programs and arena. What only a running process knows is left 0.
[[nodiscard]] MemoryOfRank memory_of(const RankCompute& compute);

/// What is alive over time, in steps, and what it is at the first moment of the peak, the largest first.
struct MemoryUse {
  std::vector<std::pair<std::int64_t, std::int64_t>> alive;  // (time, bytes from then on), in order
  std::int64_t peak = 0, peak_time = 0;
  std::vector<NamedBytes> at_peak;
};

/// Follows the rank's actions of a step. Within an action its whole workspace counts, and what it frees goes at its end.
[[nodiscard]] MemoryUse memory_use(const MemoryOfRank& memory, const std::vector<Action>& list, const std::vector<TraceRecord>& actions);

}  // namespace millrace::runtime
