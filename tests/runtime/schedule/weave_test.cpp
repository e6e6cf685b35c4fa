// Two actions of a rank, interleaved by segments.

#include "runtime/schedule/weave.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <random>

#include "tests/runtime/schedule/schedule_support.hpp"

namespace millrace::runtime {
namespace {

std::string text_of(const std::vector<WovenSegment>& order) {
  std::string text;
  for (const WovenSegment& each : order) text += fmt::format("{}{}", each.action == 0 ? 'a' : 'b', each.segment);
  return text;
}

/// Segments that each await the exchange that the one before has posted.
std::vector<SegmentShape> chain(int segments) {
  std::vector<SegmentShape> shapes(static_cast<std::size_t>(segments), SegmentShape{-1, 1});
  for (int segment = 1; segment < segments; ++segment) shapes[static_cast<std::size_t>(segment)].awaits = segment - 1;
  shapes.back().posts = 0;
  return shapes;
}

TEST(Weave, OneComputesWhileTheRowsOfTheOtherAreUnderWay) {
  const auto three = chain(3), four = chain(4);
  const WovenAction first{&three}, second{&four};
  const auto order = weave(first, second, false);
  EXPECT_EQ(text_of(order), "b0a0b1a1b2a2b3");            // the longer one begins
  EXPECT_DOUBLE_EQ(woven_time(first, second, order), 7);  // all exchanges are hidden
  const auto sequence = std::vector<WovenSegment>{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}, {1, 3}};
  EXPECT_DOUBLE_EQ(woven_time(first, second, sequence), 12);
}

TEST(Weave, FollowsWhatSegmentsAndExchangesTake) {
  const auto two = chain(2);
  // While the long exchange of a is under way, all of b fits.
  const WovenAction first{&two, {{1, 1}, {10}}}, second{&two, {{2, 2}, {3}}};
  const auto order = weave(first, second, false);
  EXPECT_EQ(text_of(order), "b0a0b1a1");
  EXPECT_DOUBLE_EQ(woven_time(first, second, order), 16);  // 2, then both exchanges one after the other on the link, then 1
}

TEST(Weave, KeepsSumsOfOneProgramInTheOrderOfMicrobatches) {
  const auto three = chain(3);
  // The second has a long exchange to hide and would begin.
  const WovenAction brief{&three, {{5, 1, 1}, {1, 1}}}, lengthy{&three, {{1, 1, 20}, {30, 1}}};
  const auto free = weave(brief, lengthy, false), ordered = weave(brief, lengthy, true);
  const auto place = [](const std::vector<WovenSegment>& order, const WovenSegment& segment) {
    return std::find(order.begin(), order.end(), segment) - order.begin();
  };
  EXPECT_LT(place(free, {1, 0}), place(free, {0, 0}));
  for (int segment = 0; segment < 3; ++segment) EXPECT_LT(place(ordered, {0, segment}), place(ordered, {1, segment}));
}

TEST(Weave, KeepsAllAdditionsToASumTogether) {
  auto four = chain(4);
  const WovenAction action{&four};
  const auto place = [](const std::vector<WovenSegment>& order, const WovenSegment& segment) {
    return std::find(order.begin(), order.end(), segment) - order.begin();
  };
  const auto free = weave(action, action, true);
  EXPECT_LT(place(free, {1, 1}), place(free, {0, 2}));
  four[1].sums_until = four[2].sums_until = 2;  // two rounds of a layer
  const auto order = weave(action, action, true);
  EXPECT_LT(place(order, {0, 2}), place(order, {1, 1}));
  EXPECT_LT(place(order, {1, 0}), place(order, {0, 3}));  // still woven
}

TEST(Weave, KeepsNoMoreExchangesUnderWayThanTransportsHold) {
  const auto few = chain(4), many = chain(200);
  std::mt19937 random(7);
  int most = 0;
  for (int trial = 0; trial < 20; ++trial) {
    // Most segments of the longer action take no time, like those of rounds that are not expected to be needed.
    WovenAction first{&few, {{1, 1, 1, 1}, {4, 4, 4}}}, second{&many, {std::vector<double>(200, 0), std::vector<double>(199, 0)}};
    for (int piece = 0; piece < 4; ++piece) second.costs.compute[random() % 200] = 3, second.costs.exchange[random() % 199] = 1;
    std::array<std::map<int, int>, 2> under_way;  // by exchange of the action: its number
    int posted = 0;
    for (const WovenSegment& each : weave(first, second, false)) {
      auto& own = under_way[static_cast<std::size_t>(each.action)];
      own.erase(each.segment - 1);
      if (each.segment + 1 < static_cast<int>((each.action == 0 ? few : many).size())) own[each.segment] = posted++;
      for (const auto& strand : under_way)
        if (!strand.empty()) most = std::max(most, posted - strand.begin()->second);
    }
    EXPECT_EQ(posted, 3 + 199);
  }
  EXPECT_EQ(most, most_exchanges_under_way);
}

/// The shortest time of all orders that begin with `order`.
double shortest(const WovenAction& first, const WovenAction& second, std::vector<WovenSegment>& order, int a, int b) {
  const int all[2] = {static_cast<int>(first.segments->size()), static_cast<int>(second.segments->size())};
  if (a == all[0] && b == all[1]) return woven_time(first, second, order);
  double best = std::numeric_limits<double>::infinity();
  for (const int which : {0, 1}) {
    if ((which == 0 ? a : b) == all[which]) continue;
    order.push_back({which, which == 0 ? a : b});
    best = std::min(best, shortest(first, second, order, a + (which == 0), b + (which == 1)));
    order.pop_back();
  }
  return best;
}

TEST(Weave, AnyTwoActionsKeepTheirOrderAndLoseNoTime) {
  std::mt19937 random(5);
  const auto draw = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)); };
  const auto action = [&](std::vector<SegmentShape>& shapes, SegmentCosts& costs) {
    int posted = 0;
    for (int segment = 0, segments = 1 + draw(6); segment < segments; ++segment) {
      shapes.push_back({posted > 0 && draw(4) > 0 ? draw(posted) : -1, draw(3)});
      posted += shapes.back().posts;
      costs.compute.push_back(draw(20));
    }
    for (int exchange = 0; exchange < posted; ++exchange) costs.exchange.push_back(draw(30));
  };
  double woven = 0, in_order = 0, optimal = 0, free = 0;
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<SegmentShape> shapes[2];
    WovenAction first{&shapes[0]}, second{&shapes[1]};
    action(shapes[0], first.costs);
    action(shapes[1], second.costs);
    std::vector<WovenSegment> sequence;
    for (int which = 0; which < 2; ++which)
      for (int segment = 0; segment < static_cast<int>(shapes[which].size()); ++segment) sequence.push_back({which, segment});
    for (const bool same_program : {false, true}) {
      const auto order = weave(first, second, same_program);
      EXPECT_EQ(order, weave(first, second, same_program));
      const double time = woven_time(first, second, order);  // throws if an action's order is broken or not complete
      EXPECT_LE(time, woven_time(first, second, sequence));
      woven += time;
      if (same_program) continue;
      std::vector<WovenSegment> none;
      const double least = shortest(first, second, none, 0, 0);
      EXPECT_GE(time, least);
      optimal += least;
      free += time;
    }
    in_order += 2 * woven_time(first, second, sequence);
  }
  EXPECT_LT(woven, 0.9 * in_order);
  EXPECT_LT(free, 1.01 * optimal);
}

}  // namespace
}  // namespace millrace::runtime
