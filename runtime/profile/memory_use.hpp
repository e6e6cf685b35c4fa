#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/engine/rank_compute.hpp"
#include "runtime/profile/step_view.hpp"

namespace millrace::runtime {

/// A name and its size in bytes.
using NamedBytes = std::pair<std::string, std::int64_t>;

/// What one microbatch holds on a stage, grouped by the values' labels.
struct StageMemory {
  StageId stage;
  std::vector<NamedBytes> stash_input;      // held from the begin of F to the end of I or B
  std::vector<NamedBytes> stash_weight;     // held from the begin of F to the end of W or B
  std::vector<NamedBytes> handoff;          // held from the begin of I to the end of W
  std::array<std::int64_t, 4> workspace{};  // indexed by ActionKind, held while the action runs
};

/// The arena of a rank: how it is divided, and how much of it a step uses over time.
struct MemoryOfRank {
  std::int64_t planned = 0;         // size of the arena
  std::int64_t resident = 0;        // peak resident memory of the whole process, including all its ranks
  int on_device = -1;               // index of the rank's GPU; −1: none, and the next two fields are 0
  std::int64_t device_planned = 0;  // planned memory on that GPU: of all ranks of this process on it, with their device contexts
  std::int64_t device = 0;          // by how much the memory in use on that GPU has grown since before the ranks were built, by any process
  std::vector<NamedBytes> sections;
  std::vector<NamedBytes> fixed;    // sections that are in use all the time
  std::vector<StageMemory> stages;  // the stages of the rank
};

/// Computes it from the memory plans of a rank's programs and its arena. What only a running process knows is left 0.
[[nodiscard]] MemoryOfRank memory_of(const RankCompute& compute);

/// The memory alive over a step, and its composition at the first moment of the peak, the largest entry first.
struct MemoryUse {
  std::vector<std::pair<std::int64_t, std::int64_t>> alive;  // (time, bytes alive from then on), sorted by time
  std::int64_t peak = 0, peak_time = 0;
  std::vector<NamedBytes> at_peak;
};

/// Follows the rank's actions of a step. During an action its whole workspace counts as alive, and what it frees is freed at its
/// end.
[[nodiscard]] MemoryUse memory_use(const MemoryOfRank& memory, const std::vector<Action>& list, const std::vector<TraceRecord>& actions);

}  // namespace millrace::runtime
