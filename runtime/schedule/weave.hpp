#pragma once

#include <span>
#include <vector>

#include "runtime/schedule/schedule.hpp"
#include "runtime/schedule/stage_shape.hpp"

namespace millrace::runtime {

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

/// From the oldest exchange that a rank has under way to the newest, inclusive.
inline constexpr int most_exchanges_under_way = 64;

/// The order in which a rank runs the segments of two actions, so that one computes while the rows of the other are under way, exchanges
/// taking turns on one link: the one that ends first, found by beam search, or one action after the other if that takes no longer. Each
/// action keeps its own order, and no more exchanges are under way than transports have room for. A pure function of its arguments, so that
/// the members of an exchange, whose lists must be equal, find the same order. Lists of ranks are woven with the costs of usual machines
/// (StageShape::usual). `same_program`: both actions run one program of one stage; then segment k of the second stays behind segment k of
/// the first, and
/// behind the last that adds to the same sums (SegmentShape::sums_until), so that sums take their microbatches in order.
[[nodiscard]] std::vector<WovenSegment> weave(const WovenAction& first, const WovenAction& second, bool same_program);

/// The time that this order takes, exchanges included, on one compute lane and one link.
[[nodiscard]] double woven_time(const WovenAction& first, const WovenAction& second, std::span<const WovenSegment> order);

}  // namespace millrace::runtime
