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
  friend bool operator==(const SegmentShape&, const SegmentShape&) = default;
};

/// The segments of a stage's actions, by kind; without exchanges an action is one segment.
struct StageShape {
  std::array<std::vector<SegmentShape>, all_action_kinds.size()> segments;

  StageShape() { segments.fill({SegmentShape{}}); }
  [[nodiscard]] const std::vector<SegmentShape>& of(ActionKind kind) const { return segments[static_cast<std::size_t>(kind)]; }
  [[nodiscard]] std::vector<SegmentShape>& of(ActionKind kind) { return segments[static_cast<std::size_t>(kind)]; }
};

}  // namespace millrace::runtime
