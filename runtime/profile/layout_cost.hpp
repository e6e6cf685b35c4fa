#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/ids.hpp"

namespace millrace::runtime {

struct Profile;

/// What a step loses because the layout gives some ranks more to compute than others.
struct LayoutCost {
  struct HeavyRank {
    RankId rank;
    std::vector<StageId> stages;
    double time = 0;      // ms of its actions in a step
    double relative = 1;  // … divided by the mean of all ranks
  };
  /// The layout of whole layers that the planner's search finds for the run's schedule with the measured times of the parts.
  struct Better {
    std::string layout;
    double now = 0, step = 0;  // ms of the simulated list: with the run's own layout, and with this one
  };
  double cost = 0;               // ms per step: the simulated list with the measured stages, less the same with all stages alike
  std::vector<HeavyRank> heavy;  // those above the mean, the heaviest first
  bool searched = false;         // whether there was what a search needs: the times of the operations of whole layers
  std::optional<Better> better;  // if it found one that is noticeably faster
};

/// Empty for a rehearsal, for a single rank, and if the layout costs less than 1 % of a step. `profile` has everything else.
[[nodiscard]] std::optional<LayoutCost> layout_cost_of(const Profile& profile);

/// Two or three sentences about it: which stages are heavy, what that costs, what to do. If the times are in doubt (Measured::doubt), that
/// is said in place of what to do. Empty without a layout cost.
[[nodiscard]] std::vector<std::string> layout_cost_text(const Profile& profile);

}  // namespace millrace::runtime
