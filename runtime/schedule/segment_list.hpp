#pragma once

#include <vector>

#include "runtime/schedule/schedule.hpp"
#include "runtime/schedule/stage_shape.hpp"

namespace millrace::runtime {

/// A segment of a rank's list.
struct ListSegment {
  int action = 0;  // its place in the list of actions
  int segment = 0, segments = 1;
  int strand = 0;          // the second of two woven actions is 1
  int awaits = -1;         // an exchange of the list, numbered in the order of the posts; -1: none
  int first_exchange = 0;  // the number of its first post
  int posts = 0;

  [[nodiscard]] bool begins_action() const noexcept { return segment == 0; }
  [[nodiscard]] bool ends_action() const noexcept { return segment + 1 == segments; }
  friend bool operator==(const ListSegment&, const ListSegment&) = default;
};

/// The order in which a rank runs the segments of its list: action by action, but an overlapped pair, if one of its halves has exchanges,
/// as weave() orders it. `shapes`: by StageId; empty if there are no exchanges.
[[nodiscard]] std::vector<ListSegment> segment_list(const std::vector<Action>& list, const std::vector<StageShape>& shapes);

}  // namespace millrace::runtime
