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
    for (std::size_t action = 0; action < 2; ++action) {
      std::size_t exchange = 0;
      for (std::size_t segment = 0; segment < size(action); ++segment) {
        compute_left_ += cost_at(actions_[action]->costs.compute, segment);
        for (int post = 0; post < (*actions_[action]->segments)[segment].posts; ++post)
          exchange_left_ += cost_at(actions_[action]->costs.exchange, exchange++);
      }
    }
  }

  [[nodiscard]] std::size_t size(std::size_t action) const { return actions_[action]->segments->size(); }
  [[nodiscard]] std::size_t next(std::size_t action) const { return next_[action]; }
  [[nodiscard]] bool done(std::size_t action) const { return next_[action] == size(action); }
  [[nodiscard]] bool done() const { return done(0) && done(1); }
  [[nodiscard]] double now() const { return lane_; }

  /// Whether the exchanges under way are not too many if the action's next segment runs.
  [[nodiscard]] bool has_room(std::size_t action) const {
    const SegmentShape& segment = (*actions_[action]->segments)[next_[action]];
    int oldest = posted_;
    for (std::size_t each = 0; each < 2; ++each)
      for (std::size_t exchange = 0; exchange < under_way_[each].size(); ++exchange)
        if (under_way_[each][exchange] >= 0 && !(each == action && static_cast<int>(exchange) == segment.awaits))
          oldest = std::min(oldest, under_way_[each][exchange]);
    return posted_ + segment.posts - oldest <= most_exchanges_under_way;
  }

  /// No order of what is left ends before this.
  [[nodiscard]] double bound() const {
    return std::max(lane_ + compute_left_, exchange_left_ > 0 ? std::max(lane_, link_) + exchange_left_ : 0);
  }

  /// Runs the action's next segment.
  void run(std::size_t action) {
    const SegmentShape& segment = (*actions_[action]->segments)[next_[action]];
    if (segment.awaits >= 0) {
      lane_ = std::max(lane_, arrived_[action].at(static_cast<std::size_t>(segment.awaits)));
      under_way_[action].at(static_cast<std::size_t>(segment.awaits)) = -1;
    }
    const double time = cost_at(actions_[action]->costs.compute, next_[action]);
    lane_ += time;
    compute_left_ -= time;
    for (int post = 0; post < segment.posts; ++post) {
      const double exchange = cost_at(actions_[action]->costs.exchange, arrived_[action].size());
      link_ = std::max(link_, lane_) + exchange;
      exchange_left_ -= exchange;
      arrived_[action].push_back(link_);
      under_way_[action].push_back(posted_++);
    }
    ++next_[action];
  }

 private:
  std::array<const WovenAction*, 2> actions_;
  std::array<std::size_t, 2> next_{};
  std::array<std::vector<double>, 2> arrived_;  // by exchange
  std::array<std::vector<int>, 2> under_way_;   // by exchange: its number among those of both, −1 once it was awaited
  int posted_ = 0;                              // of both
  double lane_ = 0, link_ = 0;                  // until when compute and link are taken
  double compute_left_ = 0, exchange_left_ = 0;
};

/// One action after the other.
std::vector<WovenSegment> in_sequence(const WovenAction& first, const WovenAction& second) {
  std::vector<WovenSegment> order;
  for (std::size_t segment = 0; segment < first.segments->size(); ++segment) order.push_back({0, static_cast<int>(segment)});
  for (std::size_t segment = 0; segment < second.segments->size(); ++segment) order.push_back({1, static_cast<int>(segment)});
  return order;
}

/// The segment that the first of two microbatches of one program must have run before the second runs this one.
std::size_t sums_until(const std::vector<SegmentShape>& segments, std::size_t segment) {
  return std::max(segment, static_cast<std::size_t>(std::max(0, segments[segment].sums_until)));
}

/// The beginning of an order, and where it leaves the two actions.
struct Prefix {
  TwoStrands strands;
  std::vector<WovenSegment> order;
};

constexpr std::size_t beam = 32;  // beginnings of one length that are continued

/// Leaves the most promising ones: those that could end first, and of these the one that is furthest.
void keep_best(std::vector<Prefix>& prefixes) {
  const auto rank = [](const Prefix& prefix) { return std::pair{prefix.strands.bound(), prefix.strands.now()}; };
  std::ranges::stable_sort(prefixes, {}, rank);
  if (prefixes.size() > beam) prefixes.erase(prefixes.begin() + beam, prefixes.end());
}

}  // namespace

std::vector<WovenSegment> weave(const WovenAction& first, const WovenAction& second, bool same_program) {
  std::vector<Prefix> prefixes{{TwoStrands(first, second), {}}};
  while (!prefixes.front().strands.done()) {
    std::vector<Prefix> longer;
    for (const Prefix& prefix : prefixes) {
      for (std::size_t action = 0; action < 2; ++action) {
        const TwoStrands& strands = prefix.strands;
        if (strands.done(action)) continue;
        const bool too_early =
            same_program && action == 1 && !strands.done(0) && sums_until(*second.segments, strands.next(1)) >= strands.next(0);
        if (too_early || !strands.has_room(action)) continue;
        Prefix& next = longer.emplace_back(prefix);
        next.order.push_back({static_cast<int>(action), static_cast<int>(strands.next(action))});
        next.strands.run(action);
      }
    }
    if (longer.empty()) return in_sequence(first, second);
    keep_best(longer);
    prefixes = std::move(longer);
  }
  auto sequence = in_sequence(first, second);
  const Prefix& best = prefixes.front();
  return woven_time(first, second, sequence) <= best.strands.now() ? sequence : best.order;
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
  MILLRACE_CHECK(strands.done(), ExitCode::internal, schedule_component, "an order of {} segments, expected all of both actions",
                 order.size());
  return strands.now();
}

}  // namespace millrace::runtime
