#include "runtime/schedule/simulator/report.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/schedule/generators/catalogue.hpp"
#include "runtime/schedule/simulator/measures.hpp"
#include "runtime/schedule/simulator/memory_curve.hpp"
#include "runtime/schedule/simulator/path_summary.hpp"
#include "tests/runtime/schedule/random_costs.hpp"

namespace millrace::runtime {
namespace {

Costs unit_costs(const Schedule& schedule) {
  Costs costs;
  costs.stages = uniform_costs(schedule.placement, 1, 1, 1);
  return costs;
}

TEST(Measures, BothBubbles) {
  const Schedule schedule = zb_h2(4, 8);
  const auto step = measure(schedule, simulate(schedule, unit_costs(schedule)));
  EXPECT_NEAR(step.makespan, 27, 1e-9);
  EXPECT_NEAR(step.bubble_time, 3, 1e-9);
  EXPECT_NEAR(step.bubble, 3.0 / 27, 1e-9);
  EXPECT_NEAR(step.span, 24, 1e-9);
  EXPECT_NEAR(step.span_bubble_time, 0, 1e-9);
  EXPECT_NEAR(step.span_bubble, 0, 1e-9);
  EXPECT_EQ(step.peak, (std::vector<double>{7, 7, 7, 7}));
  EXPECT_EQ(step.worst_peak(), 7);

  const Schedule plain = one_f_one_b(4, 8);
  const auto other = measure(plain, simulate(plain, unit_costs(plain)));
  EXPECT_NEAR(other.span_bubble_time, 9, 1e-9);
  EXPECT_NEAR(other.span_bubble, 9.0 / 33, 1e-9);
  EXPECT_EQ(other.peak, (std::vector<double>{4, 3, 2, 1}));
}

TEST(MemoryCurve, ItsMaximumIsThePeak) {
  for (const ScheduleRequest& request : one_of_each(4, 8)) {
    SCOPED_TRACE(name_of(request));
    const Schedule schedule = make_schedule(request);
    const auto simulation = simulate(schedule, unit_costs(schedule));
    const auto step = measure(schedule, simulation);
    for (int rank = 0; rank < 4; ++rank) {
      const auto curve = memory_curve(schedule, simulation, RankId{rank});
      double most = 0, before = 0;
      for (const MemoryStep& point : curve) {
        EXPECT_GE(point.time, before);
        before = point.time;
        most = std::max(most, point.held);
      }
      EXPECT_NEAR(most, step.peak[static_cast<std::size_t>(rank)], 1e-12);
      EXPECT_EQ(curve.back().held, 0);
    }
  }
}

TEST(PathSummary, AddsUpToTheMakespan) {
  RandomRuns runs(61);
  for (int trial = 0; trial < 30; ++trial) {
    const RandomRun run = runs.next();
    const auto simulation = simulate(run.schedule, run.costs);
    const auto path = path_summary(run.schedule, run.costs, simulation);
    double actions = 0, ranks = 0;
    for (const double time : path.kinds) actions += time;
    for (const double time : path.ranks) ranks += time;
    EXPECT_NEAR(actions, ranks, 1e-9);
    EXPECT_NEAR(actions + path.transfer + path.launch, simulation.makespan, 1e-9);
  }
}

TEST(Report, SaysWhatWasMeasured) {
  const Schedule schedule = zb_v(4, 8);
  const Costs costs = unit_costs(schedule);
  const auto simulation = simulate(schedule, costs);
  const std::string text = print_measures(schedule, simulation);
  for (const char* part :
       {"makespan        25.5   bubble        1.5 =   5.9 %", "span              24   bubble          0 =   0.0 %", "peak               4"})
    expect_contains(text, part);
  expect_contains(print_ranks(schedule, simulation), "    3         24    5.9 %        4  3,4\n");
  expect_contains(print_waits(schedule, simulation),
                  "    3         24         1.5          0         0         0         0         0    5.9 %");
  const std::string slots = print_slots(schedule, make_ledger(schedule));
  expect_contains(slots, "    7     0            1        1        1                  3              -\n");
  expect_contains(print_critical_path(schedule, costs, simulation), "critical path: ");
}

TEST(Report, SensitivitiesNameTheSlowRank) {
  const Schedule schedule = one_f_one_b(4, 8);
  Costs costs = unit_costs(schedule);
  costs.noise.slowdown = {1, 1, 2, 1};
  const std::string text = print_critical_path(schedule, costs, simulate(schedule, costs));
  expect_contains(text, "B of stage 2 (rank 2)");
  expect_contains(text, "most on rank 2");
}

TEST(Report, JsonHasTheSameNumbers) {
  const Schedule schedule = interleaved(4, 2, 8);
  Costs costs;
  costs.stages = uniform_costs(schedule.placement, 1, 1.1, 0.8);
  costs.links = uniform_links(schedule.placement, 0.05);
  const auto simulation = simulate(schedule, costs);
  const auto lost = lost_time(schedule, costs);
  const auto json = nlohmann::json::parse(to_json(schedule, costs, simulation, lost));
  EXPECT_EQ(json.at("schedule"), "interleaved");
  EXPECT_EQ(json.at("ranks"), 4);
  EXPECT_EQ(json.at("chunks"), 2);
  EXPECT_EQ(json.at("microbatches"), 8);
  EXPECT_NEAR(json.at("makespan").get<double>(), 28.25, 1e-9);
  EXPECT_NEAR(json.at("span").get<double>(), 28.25, 1e-9);
  EXPECT_EQ(json.at("peak"), nlohmann::json({5.5, 4.5, 3.5, 2.5}));
  EXPECT_NEAR(json.at("bubble").get<double>(), simulation.bubble(), 1e-12);
  double sum = 0;
  for (const auto& [cause, time] : json.at("lost_time").items()) sum += time.get<double>();
  EXPECT_NEAR(sum, 28.25, 1e-9);
  for (const auto& rank : json.at("rank_times")) {
    double whole = 0;
    for (const char* part : {"busy", "activation", "gradient", "link", "slot", "launch", "drain"}) whole += rank.at(part).get<double>();
    EXPECT_NEAR(whole, 28.25, 1e-9);
  }
  EXPECT_EQ(json.at("sensitivity").at("stages").size(), 8U);
}

TEST(Catalogue, HasEveryScheduleInOrder) {
  const auto& facts = schedule_catalogue();
  ASSERT_EQ(facts.size(), schedule_names().size());
  for (std::size_t i = 0; i < facts.size(); ++i) EXPECT_EQ(facts[i].name, schedule_names()[i]);
}

}  // namespace
}  // namespace millrace::runtime
