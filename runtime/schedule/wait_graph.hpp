#pragma once

#include <string>
#include <vector>

#include "runtime/schedule/action.hpp"

namespace millrace::runtime {

/// The result of a replay without times.
struct Liveness {
  bool live = false;
  /// Empty if live. Otherwise one line per stuck rank (its action, what it lacks, which rank would produce that and where that
  /// rank is stuck), then one cycle.
  std::string report;
  // ranks that wait for each other, in order; empty if live, or if a rank waits for something that no rank does
  std::vector<RankId> cycle;
};

/// A rank that cannot proceed.
struct StuckRank {
  RankId rank;
  std::string entry;           // "1F3 (action 5 of 24)"
  std::string lacks;           // "no activation of microbatch 3 from stage 0, which 0F3 on rank 0 produces"
  RankId waits_for = no_rank;  // the rank that would have to proceed first
  std::string at;              // "1F3"
};

/// Describes the stuck ranks in words and looks for a cycle among them. Without stuck ranks the schedule is live.
[[nodiscard]] Liveness explain(const std::vector<StuckRank>& stuck);

}  // namespace millrace::runtime
