#include "runtime/profile/exchange_time.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/profile/analyze.hpp"
#include "runtime/profile/profile_json.hpp"
#include "runtime/profile/trace_check.hpp"
#include "runtime/profile/trace_json.hpp"
#include "runtime/schedule/replicate.hpp"
#include "tests/runtime/profile/made_up.hpp"
#include "tests/runtime/schedule/schedule_support.hpp"

namespace millrace::runtime {
namespace {

using Json = nlohmann::json;

constexpr StepId only_step(1);

/// A rank of a copy that runs F in two segments, between which it exchanges rows, and B. Times are milliseconds of the step.
struct MemberTimes {
  double posted, ended, second_begins, second_ends, end;
};

RankTrace member_trace(const Schedule& schedule, RankId rank, const MemberTimes& times, std::int64_t bytes) {
  RankTrace trace{rank, {}, {}};
  const auto& list = schedule.ranks[rank.index()];
  const auto add = [&](SpanKind kind, double begin, double end, const Action* action, int segment) {
    TraceRecord record;
    record.begin = nanoseconds(begin);
    record.end = nanoseconds(end);
    record.step = only_step;
    record.kind = kind;
    record.segment = static_cast<std::uint16_t>(segment);
    if (action) record.stage = action->stage, record.microbatch = action->microbatch;
    if (kind == SpanKind::wait) record.reason = WaitReason::exchange, record.action = action->kind;
    trace.compute.push_back(record);
  };
  add(SpanKind::step, 0, times.end, nullptr, 0);
  add(SpanKind::forward, 0, times.posted, &list[0], 0);
  add(SpanKind::wait, times.posted, times.second_begins, &list[0], 1);
  add(SpanKind::forward, times.second_begins, times.second_ends, &list[0], 1);
  add(SpanKind::backward, times.second_ends, times.end, &list[1], 0);
  ExchangeRecord exchange;
  exchange.begin = nanoseconds(times.posted);
  exchange.end = nanoseconds(times.ended);
  exchange.bytes = bytes;
  exchange.step = only_step;
  exchange.stage = list[0].stage;
  exchange.microbatch = list[0].microbatch;
  trace.exchanges.push_back(exchange);
  ++exchange.step.value;  // of the next step
  trace.exchanges.push_back(exchange);
  return trace;
}

/// Two copies: rank 1 posts 2 ms later than rank 0.
Measured two_members() {
  const Schedule schedule = replicate(table(Placement::single(1), 1, {"0F0 0B0"}), 2);
  Measured measured = made_up(schedule, even(schedule), 0);
  StageShape shape;
  shape.of(ActionKind::forward) = {SegmentShape{-1, 1}, SegmentShape{0, 0}};
  ExchangeNames names;
  names.of(ActionKind::forward) = {{3, "layers.3.mlp.dispatch"}};
  measured.exchanging = {{shape, shape}, {{RankId(0), RankId(1)}, {RankId(0), RankId(1)}}, {names, names}};
  measured.traces = {member_trace(measured.schedule, RankId(0), {1, 5, 5.5, 7, 9}, 100),
                     member_trace(measured.schedule, RankId(1), {3, 5, 5, 7, 10}, 300)};
  measured.steps = {only_step};
  measured.losses = {5};
  return measured;
}

TEST(ExchangeTimes, AreAddedOverTheMembersOfAGroup) {
  const Measured measured = two_members();
  const StepView view = view_of(measured.schedule, measured.traces, only_step);
  const auto times = exchange_times(measured.exchanging, {&view, 1});
  ASSERT_EQ(times.size(), 1U);
  EXPECT_EQ(times[0].name, "layers.3.mlp.dispatch");
  EXPECT_EQ(times[0].layer, 3);
  EXPECT_EQ(times[0].pass, 'F');
  EXPECT_EQ(times[0].count, 2) << "that of the next step is not of this one";
  EXPECT_EQ(times[0].bytes, 400);
  EXPECT_EQ(times[0].under_way, nanoseconds(4 + 2));
  EXPECT_EQ(times[0].late, nanoseconds(2)) << "rank 0 until rank 1 has posted";
  EXPECT_EQ(times[0].exposed, nanoseconds(4.5 + 2));
  EXPECT_EQ(times[0].hidden(), 0) << "the wait ends when the rank learns of the end, half a millisecond later";
}

TEST(ExchangeTimes, WithoutNamesHaveNumbers) {
  Measured measured = two_members();
  measured.exchanging.names.clear();
  const StepView view = view_of(measured.schedule, measured.traces, only_step);
  EXPECT_EQ(exchange_times(measured.exchanging, {&view, 1}).at(0).name, "exchange 0 of stage 0");
}

TEST(ExchangeTimes, AreHiddenByCompute) {
  Measured measured = two_members();
  for (RankTrace& trace : measured.traces)
    for (TraceRecord& record : trace.compute)
      if (record.kind == SpanKind::wait) record.begin = record.end - nanoseconds(0.75);
  const StepView view = view_of(measured.schedule, measured.traces, only_step);
  EXPECT_DOUBLE_EQ(exchange_times(measured.exchanging, {&view, 1}).at(0).hidden(), 0.75);
}

TEST(ExchangeTimes, AreInTheProfileAndTheTrace) {
  const Profile profile = analyze(two_members());
  const Json json = Json::parse(profile_json(profile));
  ASSERT_EQ(json.at("exchanges").size(), 1U);
  EXPECT_EQ(json["exchanges"][0]["bytes"], 400);
  EXPECT_EQ(json["exchanges"][0]["exposed_ms"], 6.5);
  const Json trace = Json::parse(trace_json(profile));
  EXPECT_EQ(trace_problems(trace.dump()), std::vector<std::string>{});
  std::vector<Json> begun;
  for (const Json& event : trace.at("traceEvents"))
    if (event.at("ph") == "b") begun.push_back(event);
  ASSERT_EQ(begun.size(), 2U);
  EXPECT_EQ(begun[1].at("name"), "layers.3.mlp.dispatch");
  EXPECT_EQ(begun[1].at("args"), (Json{{"step", 2}, {"action", "1F1"}, {"bytes sent", 300}}));
}

TEST(TraceCheck, RefusesExchangesWithoutEnds) {
  const Json sound = Json::parse(trace_json(analyze(two_members())));
  const auto changed = [&](const char* field, const Json& value) {
    Json trace = sound;
    (*std::ranges::find(trace.at("traceEvents"), "e", [](const Json& event) { return event.at("ph"); }))[field] = value;
    const auto problems = trace_problems(trace.dump());
    return problems.empty() ? std::string() : problems.front();
  };
  EXPECT_NE(changed("id", 77).find("ends and has not begun"), std::string::npos) << changed("id", 77);
  EXPECT_NE(changed("ts", 0.5).find("lasts -"), std::string::npos) << changed("ts", 0.5);
  EXPECT_NE(changed("name", "other").find("ends as other"), std::string::npos) << changed("name", "other");
  EXPECT_NE(changed("ph", "b").find("begins twice"), std::string::npos) << changed("ph", "b");
  Json trace = sound;
  auto& events = trace.at("traceEvents");
  events.erase(std::ranges::find(events, "e", [](const Json& event) { return event.at("ph"); }));
  EXPECT_NE(trace_problems(trace.dump()).at(0).find("does not end"), std::string::npos);
}

}  // namespace
}  // namespace millrace::runtime
