#include "runtime/schedule/weave.hpp"

#include <algorithm>
#include <array>

#include "kernels/base/check.hpp"
#include "runtime/schedule/component.hpp"

namespace millrace::runtime {
namespace {

double cost_at(const std::vector<double>& costs, std::size_t index) { return index < costs.size() ? costs[index] : 1.0; }

/// Two actions on one compute lane and one link.
class TwoStrands {
 public:
  TwoStrands(const WovenAction& first, const WovenAction& second) : actions_{&first, &second} {
    for (std::size_t action = 0; action < 2; ++action)
      for (std::size_t segment = 0; segment < size(action); ++segment) left_[action] += cost_at(actions_[action]->costs.compute, segment);
  }

  [[nodiscard]] std::size_t size(std::size_t action) const { return actions_[action]->segments->size(); }
  [[nodiscard]] std::size_t next(std::size_t action) const { return next_[action]; }
  [[nodiscard]] bool done(std::size_t action) const { return next_[action] == size(action); }
  [[nodiscard]] double left(std::size_t action) const { return left_[action]; }
  [[nodiscard]] double now() const { return lane_; }

  /// When the action's next segment can begin.
  [[nodiscard]] double ready(std::size_t action) const {
    const int awaits = (*actions_[action]->segments)[next_[action]].awaits;
    return awaits < 0 ? lane_ : std::max(lane_, arrived_[action].at(static_cast<std::size_t>(awaits)));
  }

  /// Runs it.
  void run(std::size_t action) {
    const SegmentShape& segment = (*actions_[action]->segments)[next_[action]];
    const double time = cost_at(actions_[action]->costs.compute, next_[action]);
    lane_ = ready(action) + time;
    left_[action] -= time;
    for (int post = 0; post < segment.posts; ++post) {
      link_ = std::max(link_, lane_) + cost_at(actions_[action]->costs.exchange, arrived_[action].size());
      arrived_[action].push_back(link_);
    }
    ++next_[action];
  }

 private:
  std::array<const WovenAction*, 2> actions_;
  std::array<std::size_t, 2> next_{};
  std::array<double, 2> left_{};
  std::array<std::vector<double>, 2> arrived_;  // by exchange
  double lane_ = 0, link_ = 0;                  // until when compute and link are taken
};

/// One action after the other.
std::vector<WovenSegment> in_sequence(const WovenAction& first, const WovenAction& second) {
  std::vector<WovenSegment> order;
  for (std::size_t segment = 0; segment < first.segments->size(); ++segment) order.push_back({0, static_cast<int>(segment)});
  for (std::size_t segment = 0; segment < second.segments->size(); ++segment) order.push_back({1, static_cast<int>(segment)});
  return order;
}

}  // namespace

std::vector<WovenSegment> weave(const WovenAction& first, const WovenAction& second, bool same_program) {
  TwoStrands strands(first, second);
  std::vector<WovenSegment> order;
  while (!strands.done(0) || !strands.done(1)) {
    std::size_t chosen = strands.done(0) ? 1 : 0;
    const bool both = !strands.done(0) && !strands.done(1);
    const bool second_may = !same_program || strands.next(1) < strands.next(0);
    if (both && second_may) {
      const double a = strands.ready(0), b = strands.ready(1);
      if (b < a || (b == a && strands.left(1) > strands.left(0))) chosen = 1;
    }
    order.push_back({static_cast<int>(chosen), static_cast<int>(strands.next(chosen))});
    strands.run(chosen);
  }
  auto sequence = in_sequence(first, second);
  return woven_time(first, second, sequence) < strands.now() ? sequence : order;
}

double woven_time(const WovenAction& first, const WovenAction& second, std::span<const WovenSegment> order) {
  TwoStrands strands(first, second);
  for (const WovenSegment& each : order) {
    const auto action = static_cast<std::size_t>(each.action);
    MILLRACE_CHECK(action < 2 && !strands.done(action) && strands.next(action) == static_cast<std::size_t>(each.segment),
                   ExitCode::internal, schedule_component, "segment {} of woven action {} is not the action's next one", each.segment,
                   each.action);
    strands.run(action);
  }
  MILLRACE_CHECK(strands.done(0) && strands.done(1), ExitCode::internal, schedule_component,
                 "an order of {} segments, expected all of both actions", order.size());
  return strands.now();
}

}  // namespace millrace::runtime
