#include "runtime/schedule/simulator/layer_assignment.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "runtime/schedule/simulator/simulate.hpp"
#include "tests/runtime/schedule/schedule_support.hpp"

namespace millrace::runtime {
namespace {

using Counts = std::vector<int>;

StageCost cost(double forward, double input_gradient, double weight_gradient) {
  return {forward, input_gradient, weight_gradient, input_gradient + weight_gradient};
}

/// Equal layers, and a head that costs as much as `head` of them.
LayerCosts model(int layers, double head) {
  return {cost(0, 0, 0.1), std::vector<StageCost>(static_cast<std::size_t>(layers), cost(1, 1, 1)), cost(head, head, head)};
}

/// Calls `action` with every distribution of the layers.
template <class Action>
void each_layout(Counts& counts, std::size_t stage, int left, Action&& action) {
  if (stage + 1 == counts.size()) {
    counts[stage] = left;
    action(counts);
    return;
  }
  for (int here = 0; here <= left; ++here) {
    counts[stage] = here;
    each_layout(counts, stage + 1, left - here, action);
  }
}

double makespan(const Schedule& schedule, const LayerCosts& costs, const Counts& counts) {
  Costs priced;
  priced.stages = stage_costs(schedule.placement, costs, counts);
  return simulate(schedule, priced).makespan;
}

double best_makespan(const Schedule& schedule, const LayerCosts& costs) {
  double best = std::numeric_limits<double>::infinity();
  Counts counts(static_cast<std::size_t>(schedule.placement.model_stages()));
  each_layout(counts, 0, static_cast<int>(costs.layers.size()),
              [&](const Counts& layout) { best = std::min(best, makespan(schedule, costs, layout)); });
  return best;
}

TEST(StageCosts, EndsAndEveryReplicaHaveTheirParts) {
  LayerCosts costs = model(3, 5);
  costs.layers[1] = cost(7, 2, 3);
  const auto plain = stage_costs(Placement::single(3), costs, {2, 0, 1});
  EXPECT_DOUBLE_EQ(plain[0].forward, 8);
  EXPECT_DOUBLE_EQ(plain[0].weight_gradient, 4.1);
  EXPECT_DOUBLE_EQ(plain[1].backward, 0);
  EXPECT_DOUBLE_EQ(plain[2].backward, 12);
  const auto twice = stage_costs(Placement::mirror(4), costs, {1, 1, 1, 0});
  ASSERT_EQ(twice.size(), 8U);
  EXPECT_DOUBLE_EQ(twice[5].forward, 7);
  EXPECT_DOUBLE_EQ(twice[7].forward, 5);
  EXPECT_THROW((void)stage_costs(Placement::single(3), costs, {2, 0, 2}), Error);
}

TEST(SmallestLargestStage, IsThatOfAllLayouts) {
  std::mt19937 random(5);
  const auto length = [&] { return std::uniform_real_distribution<double>(0.1, 2)(random); };
  for (int trial = 0; trial < 60; ++trial) {
    LayerCosts costs = model(static_cast<int>(random() % 8), 3 * length());
    costs.embedding.forward = length();
    for (auto& layer : costs.layers) layer = cost(length(), length(), length());
    const int stages = 1 + static_cast<int>(random() % 4);
    const auto placement = Placement::single(stages);
    const auto largest = [&](const Counts& counts) {
      double most = 0;
      for (const auto& stage : stage_costs(placement, costs, counts)) most = std::max(most, stage.forward + stage.backward);
      return most;
    };
    double best = std::numeric_limits<double>::infinity();
    Counts counts(static_cast<std::size_t>(stages));
    each_layout(counts, 0, static_cast<int>(costs.layers.size()), [&](const Counts& layout) { best = std::min(best, largest(layout)); });
    EXPECT_NEAR(largest(minimax_layer_counts(stages, costs)), best, 1e-9);
  }
}

TEST(LayerAssignment, IsAsFastAsTheFastestOfAllLayouts) {
  std::mt19937 random(7);
  const auto length = [&] { return std::uniform_real_distribution<double>(0.5, 1.5)(random); };
  int cases = 0, equal = 0;
  for (const char* name : {"1f1b", "zb-h1", "gpipe", "interleaved", "zb-v", "v-half", "interleaved-zb"}) {
    for (int trial = 0; trial < 6; ++trial, ++cases) {
      const int chunks = usual_chunks(name), ranks = chunks == 1 ? 2 + trial % 3 : 2 + trial % 2;
      const auto schedule = make_schedule({name, ranks, chunks, 2 * ranks, {}});
      LayerCosts costs = model(chunks == 1 ? 9 : 7, 4 * length());
      for (auto& layer : costs.layers) layer = trial % 2 == 0 ? cost(1, 1.2, 0.8) : cost(length(), length(), length());
      const auto found = assign_layers(schedule, costs);
      const double best = best_makespan(schedule, costs);
      EXPECT_DOUBLE_EQ(found.makespan, makespan(schedule, costs, found.counts));
      EXPECT_GE(found.makespan, best * (1 - 1e-9));
      EXPECT_LE(found.makespan, best * 1.02) << name << " " << trial;
      equal += found.makespan <= best * (1 + 1e-9) ? 1 : 0;
    }
  }
  EXPECT_GE(equal, cases * 9 / 10) << "of " << cases;
}

TEST(LayerAssignment, FindsTheGainsOfAHeavyHead) {
  // 32 layers, a head of 2.4, links of 0.05: efficiency of the even distribution and after the search.
  struct Row {
    const char* name;
    int chunks;
    double efficiency;
  };
  for (const auto& row : {Row{"1f1b", 1, 0.816}, Row{"zb-h1", 1, 0.903}, Row{"interleaved", 2, 0.908}, Row{"zb-v", 2, 0.933}}) {
    const auto schedule = make_schedule({row.name, 4, row.chunks, 16, {}});
    LayerCosts costs = model(32, 2.4);
    LayerAssignmentOptions options;
    options.fixed.links = uniform_links(schedule.placement, 0.05);
    const auto found = assign_layers(schedule, costs, options);
    const double work = 16 * (3 * (32 + 2.4) + 0.1);
    EXPECT_GT(work / (4 * found.makespan), row.efficiency - 0.01) << row.name;
  }
}

TEST(LayerAssignment, StaysWithinTheLimit) {
  const auto schedule = make_schedule({"1f1b", 4, 1, 8, {}});
  const LayerCosts costs = model(12, 4);
  const auto free = assign_layers(schedule, costs);
  EXPECT_LT(free.counts.back(), 3);
  LayerAssignmentOptions options;
  options.excess = [](const Counts& counts) {
    return static_cast<double>(std::max(0, *std::max_element(counts.begin(), counts.end()) - 3));
  };
  const auto limited = assign_layers(schedule, costs, options);
  EXPECT_EQ(limited.counts, (Counts{3, 3, 3, 3}));
  EXPECT_EQ(limited.excess, 0);
  options.excess = [](const Counts& counts) { return 1.0 + counts.front(); };
  EXPECT_EQ(assign_layers(schedule, costs, options).excess, 1) << "as near as it can come";
}

// The limit may be slow to ask: a layout that is no faster is not asked about.
TEST(LayerAssignment, AsksForTheLimitOfFasterLayoutsAlone) {
  const auto schedule = make_schedule({"1f1b", 4, 1, 16, {}});
  const LayerCosts costs = model(8, 0);  // nothing is faster than two layers each
  LayerAssignmentOptions options;
  std::vector<Counts> asked;
  options.excess = [&](const Counts& counts) {
    asked.push_back(counts);
    return 0.0;
  };
  EXPECT_EQ(assign_layers(schedule, costs, options).counts, (Counts{2, 2, 2, 2}));
  // The even spread and those with one layer moved between neighbours, where the search begins, and what is faster than one of these.
  EXPECT_GE(asked.size(), 7U);
  for (const Counts& counts : asked) {
    int moved = 0;
    for (const int layers : counts) moved += std::abs(layers - 2);
    EXPECT_LE(moved, 2) << fmt::format("{}", fmt::join(counts, " "));
  }
  auto distinct = asked;
  std::ranges::sort(distinct);
  EXPECT_EQ(std::ranges::adjacent_find(distinct), distinct.end()) << "asked twice";
}

// An overlapped pair may take less time than its halves together; the work of the busiest rank is then no lower bound of the step.
TEST(LayerAssignment, PairsThatAreShortMakeOtherLayoutsTheFastest) {
  const auto schedule = make_schedule({"dualpipe", 2, 1, 8, {}});
  const LayerCosts costs = model(6, 2);
  LayerAssignmentOptions options;
  const auto stages = schedule.placement.stages();
  for (int forward = 0; forward < stages; ++forward)
    for (int backward = 0; backward < stages; ++backward)
      options.fixed.pairs.push_back({StageId{forward}, StageId{backward}, forward == backward ? 1.0 : 0.5 + forward});
  double best = std::numeric_limits<double>::infinity();
  Counts counts(static_cast<std::size_t>(schedule.placement.model_stages()));
  each_layout(counts, 0, 6, [&](const Counts& layout) {
    Costs priced = options.fixed;
    priced.stages = stage_costs(schedule.placement, costs, layout);
    best = std::min(best, simulate(schedule, priced).makespan);
  });
  EXPECT_DOUBLE_EQ(assign_layers(schedule, costs, options).makespan, best);
}

TEST(LayerAssignment, EndsWithItsEffort) {
  const auto schedule = make_schedule({"interleaved", 16, 4, 64, {}});
  LayerAssignmentOptions options;
  options.effort = 3e5;
  const auto found = assign_layers(schedule, model(128, 6), options);
  EXPECT_EQ(std::accumulate(found.counts.begin(), found.counts.end(), 0), 128);
  EXPECT_LE(found.makespan, makespan(schedule, model(128, 6), Counts(64, 2)));
}

}  // namespace
}  // namespace millrace::runtime
