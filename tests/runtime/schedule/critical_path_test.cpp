#include "runtime/schedule/simulator/critical_path.hpp"

#include "tests/runtime/schedule/random_costs.hpp"

namespace millrace::runtime {
namespace {

double makespan(const RandomRun& run) { return simulate(run.schedule, run.costs, false).makespan; }

TEST(CriticalPath, LeadsFromTheBeginToTheEndWithoutAGap) {
  RandomRuns runs(31);
  int transfers = 0, launches = 0;
  for (int trial = 0; trial < 100; ++trial) {
    const RandomRun run = runs.next();
    const Simulation simulation = simulate(run.schedule, run.costs);
    double at = 0;
    for (const PathStep& step : critical_path(run.schedule, run.costs, simulation)) {
      EXPECT_NEAR(step.begin, at, 1e-9);
      EXPECT_GE(step.end, step.begin);
      at = step.end;
      transfers += step.kind == PathStep::Kind::transfer;
      launches += step.kind == PathStep::Kind::launch;
    }
    EXPECT_EQ(at, simulation.makespan);
  }
  EXPECT_GT(transfers, 100);
  EXPECT_GT(launches, 100);
}

TEST(Slack, IsWhatAnActionCanTakeLongerAndNoMore) {
  RandomRuns runs(37);
  for (int trial = 0; trial < 60; ++trial) {
    RandomRun run = runs.next();
    const Simulation simulation = simulate(run.schedule, run.costs);
    const std::vector<double> spare = slack(run.schedule, run.costs, simulation);
    for (const PathStep& step : critical_path(run.schedule, run.costs, simulation)) {
      if (step.kind == PathStep::Kind::action) {
        EXPECT_NEAR(spare[step.action], 0, 1e-9);
      }
    }
    for (int probe = 0; probe < 6; ++probe) {
      const int rank = runs.below(static_cast<unsigned>(run.schedule.ranks.size()));
      const int index = runs.below(static_cast<unsigned>(run.schedule.ranks[static_cast<std::size_t>(rank)].size()));
      const double own = spare[simulation.at(RankId{rank}, index)];
      run.costs.noise.stalls.push_back({RankId{rank}, index, own});
      EXPECT_NEAR(makespan(run), simulation.makespan, 1e-9) << run.schedule.name;
      run.costs.noise.stalls.back().duration = own + 0.125;
      EXPECT_NEAR(makespan(run), simulation.makespan + 0.125, 1e-9) << run.schedule.name;
      run.costs.noise.stalls.pop_back();
    }
  }
}

TEST(Sensitivity, IsWhatASmallChangeDoes) {
  RandomRuns runs(41);
  constexpr double small = 1e-7;
  for (int trial = 0; trial < 60; ++trial) {
    RandomRun run = runs.next();
    const double before = makespan(run);
    const Sensitivity slope = sensitivity(run.schedule, run.costs, simulate(run.schedule, run.costs));
    const auto check = [&](double& input, double wanted, const char* what) {
      const double kept = input;
      input += small;
      EXPECT_NEAR((makespan(run) - before) / small, wanted, 1e-4) << run.schedule.name << " " << what;
      input = kept;
    };
    for (std::size_t stage = 0; stage < run.costs.stages.size(); ++stage) {
      check(run.costs.stages[stage].forward, slope.stages[stage].forward, "forward");
      check(run.costs.stages[stage].input_gradient, slope.stages[stage].input_gradient, "input gradient");
      check(run.costs.stages[stage].weight_gradient, slope.stages[stage].weight_gradient, "weight gradient");
      check(run.costs.stages[stage].backward, slope.stages[stage].backward, "backward");
    }
    for (std::size_t pair = 0; pair < run.costs.pairs.size(); ++pair) check(run.costs.pairs[pair].duration, slope.pairs[pair], "pair");
    for (std::size_t edge = 0; edge < run.costs.links.size(); ++edge) {
      LinkCost& link = run.costs.links[edge];
      check(link.latency, slope.links[edge].latency, "latency");
      const double kept = link.bytes;
      link.bytes += small * link.bytes_per_second;
      EXPECT_NEAR((makespan(run) - before) / small, slope.links[edge].occupancy, 1e-4) << run.schedule.name;
      link.bytes = kept;
    }
    if (run.costs.launch > 0) check(run.costs.launch, slope.launch, "launch");
  }
}

TEST(CriticalPath, WantsATrace) {
  const Schedule schedule = gpipe(2, 2);
  Costs costs;
  costs.stages.resize(2);
  const Simulation quick = simulate(schedule, costs, false);
  expect_contains(error_of(ExitCode::internal, [&] { (void)critical_path(schedule, costs, quick); }), "without trace");
  expect_contains(error_of(ExitCode::internal, [&] { (void)slack(schedule, costs, quick); }), "without trace");
}

}  // namespace
}  // namespace millrace::runtime
