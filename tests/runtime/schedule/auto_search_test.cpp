#include <random>

#include "runtime/schedule/simulator/replay.hpp"
#include "runtime/schedule/validate.hpp"
#include "tests/runtime/schedule/schedule_support.hpp"

namespace millrace::runtime {
namespace {

SearchInput same_for_all(int ranks, const RankCost& cost, double latency = 0) {
  return {std::vector<RankCost>(static_cast<std::size_t>(ranks), cost), latency};
}

std::vector<StageCost> stage_costs(const SearchInput& input) {
  std::vector<StageCost> costs;
  for (const RankCost& cost : input.ranks) {
    costs.push_back({cost.forward, cost.input_gradient, cost.weight_gradient, cost.input_gradient + cost.weight_gradient});
  }
  return costs;
}

double makespan(const Schedule& schedule, const SearchInput& input) { return replay(schedule, stage_costs(input), input.latency).makespan; }

// The peak memory of a rank's list.
double memory_of(const std::vector<Action>& list, const RankCost& cost) {
  double held = 0, most = 0;
  for (const Action& action : list) {
    if (action.kind == ActionKind::forward) held += cost.held;
    if (action.kind == ActionKind::input_gradient) held += cost.held_weight - cost.held;
    if (action.kind == ActionKind::weight_gradient) held -= cost.held_weight;
    most = std::max(most, held);
  }
  return most;
}

TEST(AutoSearch, UnitCostsAndTheMemoryOf1F1BWithoutInput) {
  for (int ranks : {1, 2, 3, 4, 5, 8, 16}) {
    for (int microbatches : {1, 2, ranks, 2 * ranks, 3 * ranks + 1}) {
      SCOPED_TRACE(fmt::format("P={} M={}", ranks, microbatches));
      const Schedule schedule = auto_search(ranks, microbatches);
      ASSERT_NO_THROW(check_schedule(schedule));
      const Timeline found = replay(schedule, uniform_costs(schedule.placement, 1, 1, 1), 0);
      const Timeline by_hand = replay(zb_h1(ranks, microbatches), uniform_costs(schedule.placement, 1, 1, 1), 0);
      EXPECT_LE(found.makespan, by_hand.makespan);
      EXPECT_LE(found.worst_peak(), ranks);
    }
  }
}

TEST(AutoSearch, TwiceTheMemoryTakesTheSpanBubbleAway) {
  for (int ranks : {2, 4, 8}) {
    RankCost cost;
    cost.limit = 2 * ranks;
    const Schedule schedule = auto_search(ranks, 4 * ranks, same_for_all(ranks, cost));
    const Timeline timeline = replay(schedule, uniform_costs(schedule.placement, 1, 1, 1), 0);
    EXPECT_NEAR(timeline.span, 3.0 * 4 * ranks, 1e-9) << ranks;
    EXPECT_LE(timeline.worst_peak(), 2 * ranks);
  }
}

TEST(AutoSearch, KeepsTheLimitsOfUnevenRanks) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> between(0.5, 1.5);
  int better = 0;
  constexpr int trials = 60;
  for (int trial = 0; trial < trials; ++trial) {
    const int ranks = 2 + static_cast<int>(random() % 6);
    const int microbatches = 1 + static_cast<int>(random() % static_cast<unsigned>(4 * ranks));
    SearchInput input = same_for_all(ranks, {}, 0.1 * between(random));
    for (RankCost& cost : input.ranks) {
      cost = {between(random), between(random), between(random), between(random), between(random), 0};
      cost.limit = ranks * std::max(cost.held, cost.held_weight);
    }
    SCOPED_TRACE(fmt::format("trial {} P={} M={}", trial, ranks, microbatches));
    const Schedule schedule = auto_search(ranks, microbatches, input);
    ASSERT_NO_THROW(check_schedule(schedule));
    for (std::size_t rank = 0; rank < input.ranks.size(); ++rank)
      EXPECT_LE(memory_of(schedule.ranks[rank], input.ranks[rank]), input.ranks[rank].limit + 1e-9);
    EXPECT_LE(makespan(schedule, input), makespan(one_f_one_b(ranks, microbatches), input) + 1e-9);
    better += makespan(schedule, input) <= makespan(zb_h1(ranks, microbatches), input) + 1e-9 ? 1 : 0;
  }
  EXPECT_GE(better, trials * 9 / 10) << "as good as zb-h1, which has the same memory, in so many trials";
}

TEST(AutoSearch, OneMicrobatchOfMemoryStillRuns) {
  RankCost cost;
  cost.limit = 1;
  const Schedule schedule = auto_search(4, 5, same_for_all(4, cost));
  ASSERT_NO_THROW(check_schedule(schedule));
  EXPECT_EQ(text_of(schedule.ranks[1]), "1F0 1I0 1W0 1F1 1I1 1W1 1F2 1I2 1W2 1F3 1I3 1W3 1F4 1I4 1W4");
}

TEST(AutoSearch, RefusesWhatCannotBe) {
  const auto refusal = [](const SearchInput& input) { return error_of(ExitCode::config, [&] { (void)auto_search(2, 4, input); }); };
  expect_contains(refusal(same_for_all(3, {})), "costs of 3 ranks, expected one for each of 2");
  expect_contains(refusal(same_for_all(2, {}, -1)), "latency -1");
  RankCost cost;
  cost.held = 2;
  cost.limit = 1.5;
  expect_contains(refusal(same_for_all(2, cost)), "the memory limit of rank 0 is 1.5, but one microbatch takes 2; nearest legal limit: 2");
  cost = {};
  cost.forward = -1;
  expect_contains(refusal(same_for_all(2, cost)), "a cost of rank 0 is -1");
}

}  // namespace
}  // namespace millrace::runtime
