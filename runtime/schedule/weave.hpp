#pragma once

#include <span>
#include <vector>

#include "runtime/schedule/schedule.hpp"
#include "runtime/schedule/stage_shape.hpp"

namespace millrace::runtime {

/// What the segments of an action take, in any unit: `compute` by segment, `exchange` by exchange of the action. A shorter list, or an
/// empty one, is continued with ones.
struct SegmentCosts {
  std::vector<double> compute;
  std::vector<double> exchange;
};

/// One of two woven actions.
struct WovenAction {
  const std::vector<SegmentShape>* segments = nullptr;
  SegmentCosts costs = {};
};

/// A place in the order of two woven actions: segment `segment` of the first (0) or the second (1).
struct WovenSegment {
  int action = 0, segment = 0;
  friend bool operator==(const WovenSegment&, const WovenSegment&) = default;
};

/// The order in which a rank runs the segments of two actions, so that one computes while the rows of the other are under way. Each action
/// keeps its own order. List scheduling, unless one action after the other takes less time: of the two next segments the one goes first
/// that can begin earlier, exchanges taking turns on one link; of two that can begin at once the one with more left to do. A pure function
/// of its arguments, so that the members of an exchange, whose lists must be equal, find the same order. Lists of ranks are woven without
/// costs: every segment and exchange counts as one. `same_program`: both actions run one program of one stage; then segment k of the second
/// stays behind segment k of the first, so that sums take their microbatches in order.
[[nodiscard]] std::vector<WovenSegment> weave(const WovenAction& first, const WovenAction& second, bool same_program);

/// The time that this order takes, exchanges included, on one compute lane and one link.
[[nodiscard]] double woven_time(const WovenAction& first, const WovenAction& second, std::span<const WovenSegment> order);

}  // namespace millrace::runtime
