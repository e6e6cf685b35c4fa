#include "runtime/profile/trace_check.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/profile/analyze.hpp"
#include "runtime/profile/trace_json.hpp"
#include "tests/runtime/profile/made_up.hpp"

namespace millrace::runtime {
namespace {

using Json = nlohmann::json;

/// A valid trace of four ranks, as it is written.
Json sound() {
  const Schedule schedule = zb_v(4, 8);
  auto costs = even(schedule);
  costs.stages[2].forward = 3;
  costs.links = uniform_links(schedule.placement, 0.1);
  return Json::parse(trace_json(analyze(made_up(schedule, costs))));
}

Json* find(Json& trace, const std::string& phase, int skip = 0) {
  for (Json& event : trace.at("traceEvents"))
    if (event.at("ph") == phase && skip-- == 0) return &event;
  return nullptr;
}

void expect_problem(const Json& trace, const std::string& wanted) {
  const auto problems = trace_problems(trace.dump());
  ASSERT_FALSE(problems.empty()) << "accepted; expected " << wanted;
  EXPECT_NE(problems.front().find(wanted), std::string::npos) << problems.front();
}

TEST(TraceCheck, AcceptsWhatIsWritten) {
  for (const char* name : {"1f1b", "zb-h1", "zb-v", "interleaved", "dualpipe"}) {
    SCOPED_TRACE(name);
    Schedule schedule = make_schedule({.name = name, .ranks = 4, .chunks = usual_chunks(name), .microbatches = 8});
    for (auto& list : schedule.ranks)
      for (auto& action : list) action.overlaps_next = false;  // as training runs it
    auto costs = even(schedule);
    costs.noise.jitter = 0.3;
    costs.links = uniform_links(schedule.placement, 0.05);
    const auto text = trace_json(analyze(made_up(schedule, costs)));
    const auto problems = trace_problems(text);
    EXPECT_TRUE(problems.empty()) << problems.front();
  }
}

TEST(TraceCheck, LanesFlowsAndCountersAreThere) {
  const Json trace = sound();
  std::map<std::string, int> phases;
  std::set<std::string> counters;
  std::set<int> lanes;
  for (const Json& event : trace.at("traceEvents")) {
    ++phases[event.at("ph")];
    if (event.at("ph") == "C") counters.insert(event.at("name"));
    if (event.at("ph") == "X") lanes.insert(event.at("tid").get<int>());
  }
  EXPECT_EQ(phases.at("s"), phases.at("f"));
  EXPECT_EQ(phases.at("s"), 2 * 2 * 8 * 6);  // steps, directions, microbatches, edges between ranks for 8 stages on a V
  EXPECT_TRUE(counters.contains("microbatches held"));
  EXPECT_TRUE(lanes.contains(0) && lanes.contains(1) && lanes.contains(2) && lanes.contains(4));
  EXPECT_EQ(trace.at("otherData").at("ranks").size(), 4U);
}

TEST(TraceCheck, RefusesSlicesThatOverlap) {
  Json trace = sound();
  Json* first = find(trace, "X", 5);
  Json second = *first;
  second["ts"] = first->at("ts").get<double>() + first->at("dur").get<double>() / 2;
  trace.at("traceEvents").push_back(second);
  expect_problem(trace, "overlaps");
}

TEST(TraceCheck, RefusesFlowsWithoutEnds) {
  Json trace = sound();
  auto& events = trace.at("traceEvents");
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events[i].at("ph") != "f") continue;
    events.erase(i);
    break;
  }
  expect_problem(trace, "1 begins and 0 ends");
}

TEST(TraceCheck, RefusesAFlowThatBeginsOnNothing) {
  Json trace = sound();
  (*find(trace, "s"))["ts"] = 1e9;
  expect_problem(trace, "no slice at");
}

TEST(TraceCheck, RefusesAReceiveBeforeItsSendUnlessTheClocksAllowIt) {
  Json trace = sound();
  Json* end = find(trace, "f");
  const Json id = end->at("id");
  Json* begin = nullptr;
  for (Json& event : trace.at("traceEvents"))
    if (event.at("ph") == "s" && event.at("id") == id) begin = &event;
  // The same slices, but the boundary is sent later than it arrives: 7 us before the end of a slice that is 100 us later.
  const double late = end->at("ts").get<double>() + 7;
  (*begin)["pid"] = end->at("pid");
  (*begin)["ts"] = late;
  expect_problem(trace, "7000 ns before it was sent");
  for (auto& rank : trace.at("otherData").at("ranks")) rank["clock_bound_us"] = 3.4;
  expect_problem(trace, "the clocks are within 6800 ns");
  for (auto& rank : trace.at("otherData").at("ranks")) rank["clock_bound_us"] = 3.6;
  EXPECT_TRUE(trace_problems(trace.dump()).empty());
}

TEST(TraceCheck, RefusesWhatIsNoTrace) {
  expect_problem(Json::array(), "not an object");
  EXPECT_EQ(trace_problems("{\"traceEvents\":[").front(), "not JSON");
  const auto changed = [](const std::string& phase, const char* field, const Json& value) {
    Json trace = sound();
    (*find(trace, phase))[field] = value;
    return trace;
  };
  expect_problem(changed("X", "ph", "Z"), "phase Z");
  expect_problem(changed("X", "dur", -1.0), "lasts -1000 ns");
  expect_problem(changed("X", "ts", "soon"), "ts is not a number");
  expect_problem(changed("X", "pid", nullptr), "no pid");
  expect_problem(changed("C", "args", {{"held", "many"}}), "without numbers");
  expect_problem(changed("f", "bp", "s"), "bp");
  expect_problem(changed("M", "name", "nothing"), "has no process_name");
}

}  // namespace
}  // namespace millrace::runtime
