#pragma once

#include <array>
#include <vector>

#include "runtime/schedule/action.hpp"

namespace millrace::runtime {

/// The part of an action between two waits for other ranks: runtime/program/exchange.hpp. The exchanges of an action are numbered in the
/// order in which it posts them.
struct SegmentShape {
  int awaits = -1;  // the exchange whose rows it needs before it begins; -1: none
  int posts = 0;    // the exchanges that it posts
  // The last segment of the same program that adds to a sum which this one adds to; -1: it is itself. A microbatch's segment may run when
  // the one before has run that.
  int sums_until = -1;
  friend bool operator==(const SegmentShape&, const SegmentShape&) = default;
};

/// What the segments of an action take, in any unit: `compute` by segment, `exchange` by exchange of the action. A shorter list, or an
/// empty one, is continued with ones.
struct SegmentCosts {
  std::vector<double> compute;
  std::vector<double> exchange;
};

/// The segments of a stage's actions, by kind; without exchanges an action is one segment.
struct StageShape {
  std::array<std::vector<SegmentShape>, all_action_kinds.size()> segments;
  std::array<SegmentCosts, all_action_kinds.size()> usual;  // what they take on usual machines, by which actions are woven

  StageShape() { segments.fill({SegmentShape{}}); }
  [[nodiscard]] const std::vector<SegmentShape>& of(ActionKind kind) const { return segments[static_cast<std::size_t>(kind)]; }
  [[nodiscard]] const SegmentCosts& usual_of(ActionKind kind) const { return usual[static_cast<std::size_t>(kind)]; }
  [[nodiscard]] std::vector<SegmentShape>& of(ActionKind kind) { return segments[static_cast<std::size_t>(kind)]; }
};

}  // namespace millrace::runtime
