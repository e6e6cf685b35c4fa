#include "runtime/schedule/simulator/trace_events.hpp"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/runtime/schedule/schedule_support.hpp"

namespace millrace::runtime {
namespace {

using Json = nlohmann::json;

struct Traced {
  Costs costs;
  Simulation simulation;
  std::map<std::string, std::vector<Json>> events;  // by phase
};

Traced trace(const Schedule& schedule, double latency) {
  Traced result;
  result.costs.stages = uniform_costs(schedule.placement, 1, 1, 1);
  if (latency > 0) result.costs.links = uniform_links(schedule.placement, latency);
  result.simulation = simulate(schedule, result.costs);
  const Json file = Json::parse(trace_events(schedule, result.costs, result.simulation));
  for (const Json& event : file.at("traceEvents")) result.events[event.at("ph")].push_back(event);
  return result;
}

TEST(TraceEvents, EveryEntryIsASliceOfItsRank) {
  for (const ScheduleRequest& request : one_of_each(4, 8)) {
    SCOPED_TRACE(name_of(request));
    const Schedule schedule = make_schedule(request);
    const Traced traced = trace(schedule, 0.25);
    std::map<std::string, double> wanted, found;  // by rank and name: begin
    for (std::size_t rank = 0; rank < 4; ++rank) {
      const auto& list = schedule.ranks[rank];
      for (std::size_t i = 0; i < list.size(); ++i) {
        const std::size_t at = traced.simulation.first[rank] + i;
        std::string name = to_string(list[i]);
        if (list[i].overlaps_next) name = fmt::format("({};{})", name, list[++i]);
        wanted[fmt::format("{} {}", rank, name)] = traced.simulation.begin[at];
      }
    }
    for (const Json& event : traced.events.at("X")) {
      if (event.at("tid") != 0) continue;
      const auto name = fmt::format("{} {}", event.at("pid").get<int>(), event.at("name").get<std::string>());
      EXPECT_TRUE(found.try_emplace(name, event.at("ts").get<double>() / 1000).second) << event;
    }
    EXPECT_EQ(found.size(), wanted.size());
    for (const auto& [name, begin] : wanted) {
      ASSERT_TRUE(found.contains(name)) << name;
      EXPECT_NEAR(found.at(name), begin, 1e-9) << name;
    }
  }
}

TEST(TraceEvents, ArrowsGoFromMakerToUser) {
  const Traced traced = trace(zb_v(2, 4), 0);
  const auto& starts = traced.events.at("s");
  const auto& ends = traced.events.at("f");
  ASSERT_EQ(starts.size(), ends.size());
  EXPECT_EQ(starts.size(), 4U * 3 * 2);  // microbatches x neighbours x directions
  // The slice that encloses an end of an arrow.
  const auto around = [&](const Json& end) {
    for (const Json& slice : traced.events.at("X")) {
      const double begin = slice.at("ts"), time = end.at("ts");
      if (slice.at("tid") == 0 && slice.at("pid") == end.at("pid") && begin <= time && time < begin + slice.at("dur").get<double>())
        return slice.at("name").get<std::string>();
    }
    return std::string("nothing");
  };
  std::set<std::string> arrows;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    EXPECT_EQ(starts[i].at("id"), ends[i].at("id"));
    arrows.insert(around(starts[i]) + " " + around(ends[i]));
  }
  EXPECT_EQ(arrows.size(), starts.size());
  for (const char* arrow : {"0F0 1F0", "1F0 2F0", "2F3 3F3", "3I0 2I0", "1I3 0I3"}) EXPECT_TRUE(arrows.contains(arrow)) << arrow;
}

TEST(TraceEvents, WaitsFillTheGapsAndNameTheirCause) {
  const Traced traced = trace(one_f_one_b(2, 2), 0);
  double waits = 0;
  std::set<std::string> names;
  for (const Json& event : traced.events.at("X")) {
    if (event.at("tid") != 1) continue;
    waits += event.at("dur").get<double>() / 1000;
    names.insert(event.at("name"));
  }
  EXPECT_NEAR(waits, 3 + 1, 1e-9);  // rank 0 waits twice, rank 1 at the begin; its drain at the end is not a wait
  EXPECT_EQ(names, (std::set<std::string>{"activation of 0F0", "gradient of 1B0", "gradient of 1B1"}));
}

TEST(TraceEvents, TransfersTakeTheirLatency) {
  EXPECT_FALSE(trace(one_f_one_b(2, 3), 0).events.contains("b"));
  const Traced traced = trace(one_f_one_b(2, 3), 0.5);
  const auto& begins = traced.events.at("b");
  const auto& ends = traced.events.at("e");
  ASSERT_EQ(begins.size(), 6U);
  ASSERT_EQ(ends.size(), 6U);
  for (std::size_t i = 0; i < begins.size(); ++i) {
    EXPECT_EQ(begins[i].at("id"), ends[i].at("id"));
    EXPECT_NEAR(ends[i].at("ts").get<double>() - begins[i].at("ts").get<double>(), 500, 1e-6);
  }
}

TEST(TraceEvents, MemoryComesBackToNothing) {
  const Traced traced = trace(zb_h1(4, 8), 0);
  std::map<int, std::pair<double, double>> held;  // by rank: maximum, last
  for (const Json& event : traced.events.at("C")) {
    auto& [most, last] = held[event.at("pid")];
    last = event.at("args").at("held");
    most = std::max(most, last);
  }
  ASSERT_EQ(held.size(), 4U);
  for (const auto& [rank, values] : held) EXPECT_EQ(values, std::pair(4.0, 0.0)) << rank;
}

}  // namespace
}  // namespace millrace::runtime
