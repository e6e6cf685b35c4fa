#include "runtime/profile/lateness.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/profile/analyze.hpp"
#include "tests/runtime/profile/made_up.hpp"

namespace millrace::runtime {
namespace {

std::vector<Lateness> late(Measured measured) { return analyze(std::move(measured)).lateness; }

TEST(Lateness, NothingIsLateInAnEvenPipeline) {
  const Schedule schedule = one_f_one_b(4, 8);
  EXPECT_TRUE(late(made_up(schedule, even(schedule))).empty());
}

TEST(Lateness, ASlowStageComesFirst) {
  const Schedule schedule = zb_h1(4, 8);
  auto costs = even(schedule);
  costs.stages[1].forward = 7;
  costs.stages[2].input_gradient = 2.2;
  const auto found = late(made_up(schedule, costs));
  ASSERT_GE(found.size(), 1U);
  EXPECT_EQ(found.front().stage, StageId(1));
  EXPECT_EQ(found.front().rank, RankId(1));
  EXPECT_EQ(found.front().what, "stage 1 forward takes 7.00 ms, 5.00 more than the mean of the others");
  const double without = simulate(schedule,
                                  [&] {
                                    auto even_forward = costs;
                                    even_forward.stages[1].forward = 2;
                                    return even_forward;
                                  }())
                             .makespan;
  EXPECT_NEAR(found.front().cost, simulate(schedule, costs).makespan - without, 1e-6);
}

TEST(Lateness, MoreLayersMayTakeLonger) {
  const Schedule schedule = one_f_one_b(4, 8);
  auto costs = even(schedule);
  costs.stages[1] = {4, 4, 4, 8};
  auto measured = made_up(schedule, costs);
  EXPECT_FALSE(late(measured).empty());
  measured.layers[1] = 2;
  EXPECT_TRUE(late(measured).empty());
}

TEST(Lateness, ASingleActionIsNamedWithItsStep) {
  const Schedule schedule = one_f_one_b(2, 8);
  const auto costs = even(schedule);
  auto measured = made_up(schedule, costs, 1);
  auto slow = costs;
  const auto& list = schedule.ranks[1];
  const auto index =
      std::find_if(list.begin(), list.end(),
                   [](const Action& action) { return action.kind == ActionKind::backward && action.microbatch.value == 3; }) -
      list.begin();
  slow.noise.stalls.push_back({RankId(1), static_cast<int>(index), 20});
  for (int step = 2; step <= 3; ++step) {
    add_step(measured.traces, schedule, step == 3 ? slow : costs, StepId(step), 5'000'000'000 + step * 1'000'000'000LL);
    measured.steps.emplace_back(step);
  }
  const auto found = late(measured);
  const auto named =
      std::find_if(found.begin(), found.end(), [](const Lateness& cause) { return cause.what.starts_with("1B3 of step 4"); });
  ASSERT_NE(named, found.end());
  EXPECT_EQ(named->what, "1B3 of step 4 took 24.00 ms, 20.00 more than stage 1's median backward");
  EXPECT_NEAR(named->cost, 20.0 / 3, 0.5);
}

TEST(Lateness, SlowLinksAreNamedByEdge) {
  const Schedule schedule = one_f_one_b(2, 4);
  auto costs = even(schedule);
  costs.links = uniform_links(schedule.placement, 0);
  costs.links[0].latency = 3;  // activations, 0 to 1
  const auto found = late(made_up(schedule, costs));
  ASSERT_FALSE(found.empty());
  EXPECT_NE(found.front().what.find("a boundary (activation) that a rank waits for takes 3.000 ms from stage 0 on rank 0 to rank 1"),
            std::string::npos)
      << found.front().what;
}

TEST(Lateness, KeepsTheCostliest) {
  const Schedule schedule = one_f_one_b(8, 16);
  auto costs = even(schedule);
  for (std::size_t stage = 0; stage < 8; ++stage)
    costs.stages[stage] = {2 + 0.1 * static_cast<double>(stage), 0, 0, 4 + 0.3 * static_cast<double>(stage)};
  costs.noise.jitter = 0.8;
  const auto found = late(made_up(schedule, costs, 3));
  EXPECT_EQ(found.size(), 10U);
  EXPECT_TRUE(std::is_sorted(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.cost > b.cost; }));
}

}  // namespace
}  // namespace millrace::runtime
