#include "runtime/schedule/simulator/report.hpp"

#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/schedule/generators/named_schedule.hpp"
#include "runtime/schedule/simulator/critical_path.hpp"
#include "runtime/schedule/simulator/measures.hpp"
#include "runtime/schedule/simulator/memory_curve.hpp"
#include "runtime/schedule/simulator/path_summary.hpp"
#include "tests/runtime/schedule/random_costs.hpp"

namespace millrace::runtime {
namespace {

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

// One rank: its actions one after the other, each in the sum of its own kind.
TEST(PathSummary, GivesEachActionToItsKindAndRank) {
  const Schedule schedule = table(Placement::single(1), 2, {"0F0 0I0 0F1 0B1 0W0"});
  Costs costs;
  costs.stages = {{1, 10, 100, 1000}};
  const auto path = path_summary(schedule, costs, simulate(schedule, costs));
  const auto of = [&](ActionKind kind) { return path.kinds[static_cast<std::size_t>(kind)]; };
  EXPECT_EQ(of(ActionKind::forward), 2);
  EXPECT_EQ(of(ActionKind::input_gradient), 10);
  EXPECT_EQ(of(ActionKind::weight_gradient), 100);
  EXPECT_EQ(of(ActionKind::backward), 1000);
  EXPECT_EQ(path.ranks, std::vector<double>{1112});
  EXPECT_EQ(path.actions, 5);
  EXPECT_EQ(path.transfers, 0);
  EXPECT_EQ(path.transfer, 0);
  EXPECT_EQ(path.launch, 0);
}

TEST(PathSummary, AnOverlappedPairCountsAsItsFirstHalf) {
  const Schedule schedule = dualpipe_v(1, 2);
  Costs costs;
  costs.stages = uniform_costs(schedule.placement, 2, 2, 2);
  const auto path = path_summary(schedule, costs, simulate(schedule, costs));
  std::array<double, 4> wanted{};
  const auto& list = schedule.ranks[0];
  int entries = 0, pairs = 0;
  for (std::size_t i = 0; i < list.size(); ++i, ++entries) {
    auto& sum = wanted[static_cast<std::size_t>(list[i].kind)];
    sum += costs.stages[list[i].stage.index()].of(list[i].kind);
    if (!list[i].overlaps_next) continue;
    ++pairs, ++i;
    sum += costs.stages[list[i].stage.index()].of(list[i].kind);
  }
  ASSERT_GT(pairs, 0);
  EXPECT_EQ(path.kinds, wanted);
  EXPECT_EQ(path.actions, entries);
}

TEST(PathSummary, CountsTransfersAndLaunches) {
  const Schedule schedule = gpipe(2, 1);
  Costs costs;
  costs.stages = uniform_costs(schedule.placement, 1, 1, 1);
  costs.links = uniform_links(schedule.placement, 0.5);
  costs.launch = 0.25;
  const auto path = path_summary(schedule, costs, simulate(schedule, costs));
  EXPECT_EQ(path.transfers, 2);
  EXPECT_DOUBLE_EQ(path.transfer, 1);
  EXPECT_EQ(path.actions, 4);
  EXPECT_GT(path.launch, 0);
  EXPECT_EQ(path.ranks, (std::vector<double>{3, 3}));
}

TEST(Report, EveryColumnHasItsNumber) {
  const Schedule schedule = one_f_one_b(2, 2);
  Ledger ledger = make_ledger(schedule);
  ledger.stages[1].stash_input = 21;
  ledger.stages[1].stash_weight = 22;
  ledger.stages[1].handoff = 23;
  expect_contains(print_slots(schedule, ledger), "    1     1           21       22       23");
  auto simulation = simulate(schedule, unit_costs(schedule));
  const double makespan = simulation.makespan;
  for (const char* column : {"exchange", "weights"}) EXPECT_EQ(print_waits(schedule, simulation).find(column), std::string::npos);
  simulation.ranks[1] = {makespan / 4, 12, 13, 14, 15, 16, 17, 18, 19};
  const std::string waits = print_waits(schedule, simulation);
  const auto line = waits.substr(waits.rfind('\n', waits.size() - 2) + 1);
  std::istringstream words(line);
  std::vector<std::string> found;
  for (std::string word; words >> word;) found.push_back(word);
  EXPECT_EQ(std::vector(found.begin() + 2, found.end()),
            (std::vector<std::string>{"12", "13", "14", "15", "16", "17", "18", "19", "75.0", "%", "1"}))
      << line;
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
  const auto gain = sensitivity(schedule, costs, simulation);
  ASSERT_EQ(json.at("sensitivity").at("stages").size(), 8U);
  for (std::size_t stage = 0; stage < 8; ++stage) {
    const auto& entry = json.at("sensitivity").at("stages")[stage];
    EXPECT_EQ(entry.at("stage"), stage);
    EXPECT_EQ(entry.at("rank"), stage % 4);
    EXPECT_EQ(entry.at("F"), gain.stages[stage].forward);
    EXPECT_EQ(entry.at("I"), gain.stages[stage].input_gradient);
    EXPECT_EQ(entry.at("W"), gain.stages[stage].weight_gradient);
    EXPECT_EQ(entry.at("B"), gain.stages[stage].backward);
  }
  // Edges on the critical path, each with its ends.
  std::size_t links = 0;
  for (const Edge& edge : edges_of(schedule.placement)) {
    if (gain.links[edge.id.index()].latency <= 0) continue;
    const auto& entry = json.at("sensitivity").at("links").at(links++);
    EXPECT_EQ(entry.at("edge"), edge.id.value);
    EXPECT_EQ(entry.at("kind"), to_string(edge.kind));
    EXPECT_EQ(entry.at("from_stage"), edge.producer.value);
    EXPECT_EQ(entry.at("to_stage"), edge.consumer.value);
    EXPECT_EQ(entry.at("latency"), gain.links[edge.id.index()].latency);
  }
  EXPECT_GT(links, 0U);
  EXPECT_EQ(json.at("sensitivity").at("links").size(), links);
  const auto path = path_summary(schedule, costs, simulation);
  EXPECT_EQ(json.at("critical_path").at("kinds").at("F"), path.kinds[static_cast<std::size_t>(ActionKind::forward)]);
  EXPECT_EQ(json.at("critical_path").at("kinds").at("B"), path.kinds[static_cast<std::size_t>(ActionKind::backward)]);
  EXPECT_EQ(json.at("critical_path").at("ranks"), nlohmann::json(path.ranks));
  EXPECT_EQ(json.at("critical_path").at("transfers"), path.transfers);
  EXPECT_EQ(json.at("critical_path").at("transfer"), path.transfer);
}

TEST(NamedSchedules, SayWhatIsKnownAndGenerateUnderTheirOwnName) {
  ASSERT_FALSE(named_schedules().empty());
  for (const NamedSchedule* named : named_schedules()) {
    for (const auto fact : {named->bubble, named->peak, named->messages, named->requirements, named->use}) EXPECT_FALSE(fact.empty());
    const ScheduleRequest request{.name = std::string(named->name), .ranks = 2, .chunks = usual_chunks(named->name), .microbatches = 4};
    EXPECT_EQ(named->make(request).name, named->name);
  }
}

}  // namespace
}  // namespace millrace::runtime
