#pragma once

#include <string>
#include <vector>

#include "runtime/schedule/action.hpp"

namespace millrace::runtime {

/// What became of a replay without times.
struct Liveness {
  bool live = false;
  /// Where it is dead: a line for each stuck rank (action, what it lacks, who would make it and where that one is stuck), then one cycle.
  std::string report;
  std::vector<RankId> cycle;  // ranks that wait for each other, in order; empty when live, or where a rank waits for what nobody does
};

/// A rank that stands still.
struct StuckRank {
  RankId rank;
  std::string entry;           // "1F3 (action 5 of 24)"
  std::string lacks;           // "no activation of microbatch 3 from stage 0, which 0F3 on rank 0 makes"
  RankId waits_for = no_rank;  // who would have to move first
  std::string at;              // "1F3"
};

/// Puts the stuck ranks in words and looks for a cycle among them. No stuck rank: live.
[[nodiscard]] Liveness explain(const std::vector<StuckRank>& stuck);

}  // namespace millrace::runtime
