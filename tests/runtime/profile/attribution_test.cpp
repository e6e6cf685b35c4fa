#include "runtime/profile/attribution.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "kernels/base/check.hpp"
#include "runtime/profile/analyze.hpp"
#include "runtime/profile/prediction.hpp"
#include "runtime/profile/trace_check.hpp"
#include "runtime/profile/trace_json.hpp"
#include "runtime/schedule/replicate.hpp"
#include "tests/runtime/profile/made_up.hpp"
#include "tests/runtime/schedule/schedule_support.hpp"

namespace millrace::runtime {
namespace {

constexpr StepId step{1};

std::int64_t sum(const Attribution& attribution) {
  return std::accumulate(attribution.parts.begin(), attribution.parts.end(), std::int64_t{0});
}

std::vector<Attribution> attributed(const Measured& measured) {
  return attribute(measured.schedule, view_of(measured.schedule, measured.traces, step));
}

void expect_whole(const std::vector<Attribution>& ranks) {
  for (const auto& rank : ranks) {
    EXPECT_EQ(sum(rank), rank.wall);
    EXPECT_EQ(rank.wall, ranks.front().wall);
    EXPECT_EQ(problem_of(rank), "");
  }
}

TEST(Attribution, EvenStagesIdleOnlyInTheSchedulesBubble) {
  for (const char* name : {"gpipe", "1f1b", "zb-h1", "interleaved", "zb-v"}) {
    SCOPED_TRACE(name);
    const Schedule schedule = make_schedule({.name = name, .ranks = 4, .chunks = usual_chunks(name), .microbatches = 8});
    const auto costs = even(schedule);
    const auto ranks = attributed(made_up(schedule, costs));
    expect_whole(ranks);
    const auto simulation = simulate(schedule, costs);
    for (std::size_t rank = 0; rank < 4; ++rank) {
      const auto& found = ranks[rank];
      EXPECT_EQ(found.wall, nanoseconds(simulation.makespan + 1.5));
      EXPECT_EQ(found[Cause::bubble], nanoseconds(simulation.makespan - simulation.ranks[rank].busy));
      EXPECT_EQ(found[Cause::imbalance], 0);
      EXPECT_EQ(found[Cause::transfer], 0);
      EXPECT_EQ(found[Cause::optimizer], nanoseconds(1));
      EXPECT_EQ(found[Cause::other], nanoseconds(0.5));
      EXPECT_EQ(found[Cause::forward] + found[Cause::input_gradient] + found[Cause::weight_gradient] + found[Cause::backward],
                nanoseconds(simulation.ranks[rank].busy));
    }
  }
}

TEST(Attribution, ASlowStageIsTheOthersImbalance) {
  const Schedule schedule = one_f_one_b(4, 8);
  auto costs = even(schedule);
  const auto before = attributed(made_up(schedule, costs));
  costs.stages[1].forward = 6;
  const auto after = attributed(made_up(schedule, costs));
  expect_whole(after);
  EXPECT_EQ(after[1][Cause::forward], nanoseconds(8 * 6));
  for (const std::size_t rank : {0, 2, 3}) {
    EXPECT_EQ(after[rank][Cause::forward], before[rank][Cause::forward]);
    EXPECT_GT(after[rank][Cause::imbalance], nanoseconds(20)) << rank;
  }
  EXPECT_LT(after[1][Cause::imbalance], after[0][Cause::imbalance] / 4);
}

TEST(Attribution, LinksAreTransfer) {
  const Schedule schedule = one_f_one_b(2, 4);
  auto costs = even(schedule);
  costs.links = uniform_links(schedule.placement, 0.25);
  const auto ranks = attributed(made_up(schedule, costs));
  expect_whole(ranks);
  const auto simulation = simulate(schedule, costs);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(ranks[rank][Cause::transfer], nanoseconds(simulation.ranks[rank].link));
    EXPECT_GE(ranks[rank][Cause::transfer], nanoseconds(0.25));
  }
}

TEST(Attribution, EveryReasonToWaitHasItsPlace) {
  const Schedule schedule = one_f_one_b(1, 2);
  auto measured = made_up(schedule, even(schedule));
  for (auto& record : measured.traces[0].compute) {
    // leaves room for a snapshot and three waits before everything else
    if (record.kind != SpanKind::step) record.begin += nanoseconds(10);
    record.end += nanoseconds(10);
  }
  const std::int64_t begin = measured.traces[0].compute.front().begin;
  auto add = [&](WaitReason reason, double from, double to) {
    TraceRecord record;
    record.begin = begin + nanoseconds(from);
    record.end = begin + nanoseconds(to);
    record.step = step;
    record.reason = reason;
    record.stage = StageId(0);
    record.microbatch = MicrobatchId(0);
    measured.traces[0].compute.push_back(record);
  };
  add(WaitReason::batch, -6, -3);
  add(WaitReason::credit, -3, -1);
  add(WaitReason::none, -1, 0);
  auto& snapshot = measured.traces[0].compute.emplace_back(measured.traces[0].compute.front());
  snapshot.kind = SpanKind::snapshot;
  snapshot.begin = begin - nanoseconds(10);
  snapshot.end = begin - nanoseconds(6);
  const auto rank = attributed(measured).at(0);
  EXPECT_EQ(problem_of(rank), "");
  EXPECT_EQ(sum(rank), rank.wall);
  EXPECT_EQ(rank[Cause::data], nanoseconds(3));
  EXPECT_EQ(rank[Cause::transport], nanoseconds(2));
  EXPECT_EQ(rank[Cause::checkpoint], nanoseconds(4));
  EXPECT_EQ(rank[Cause::bubble] + rank[Cause::imbalance], 0);
  EXPECT_EQ(rank[Cause::other], nanoseconds(1 + 0.5));  // before the optimizer
}

TEST(Attribution, SegmentsAreComputeAndTheirWaitsAreExchange) {
  const Schedule schedule = one_f_one_b(2, 4);
  auto measured = made_up(schedule, even(schedule));
  const auto whole = view_of(schedule, measured.traces, step);
  const auto before = attributed(measured).at(1);
  // The middle half of one forward becomes a wait for rows.
  auto& records = measured.traces[1].compute;
  const auto forward = std::find_if(records.begin(), records.end(),
                                    [](const auto& record) { return record.kind == SpanKind::forward && record.step == step; });
  const std::int64_t quarter = (forward->end - forward->begin) / 4;
  TraceRecord second = *forward, wait = *forward;
  second.segment = 1;
  second.begin = forward->end - quarter;
  wait.kind = SpanKind::wait;
  wait.reason = WaitReason::exchange;
  wait.begin = forward->begin + quarter;
  wait.end = second.begin;
  forward->end = wait.begin;
  records.insert(forward + 1, {wait, second});
  ASSERT_TRUE(is_whole(schedule, measured.traces, step));
  const auto view = view_of(schedule, measured.traces, step);
  EXPECT_EQ(std::ranges::count(view.ranks[1].segments, 2U, &std::vector<TraceRecord>::size), 1);
  ASSERT_EQ(view.ranks[1].actions.size(), whole.ranks[1].actions.size());
  for (std::size_t index = 0; index < whole.ranks[1].actions.size(); ++index) {
    EXPECT_EQ(view.ranks[1].actions[index].begin, whole.ranks[1].actions[index].begin);
    EXPECT_EQ(view.ranks[1].actions[index].end, whole.ranks[1].actions[index].end);
  }
  const auto after = attributed(measured).at(1);
  EXPECT_EQ(problem_of(after), "");
  EXPECT_EQ(after[Cause::exchange], wait.end - wait.begin);
  EXPECT_EQ(after[Cause::forward], before[Cause::forward] - (wait.end - wait.begin));
}

TEST(Attribution, WhatOverlapsIsCountedOnceAndTold) {
  const Schedule schedule = one_f_one_b(2, 4);
  auto measured = made_up(schedule, even(schedule));
  auto& wait = measured.traces[1].compute.front();
  ASSERT_EQ(wait.kind, SpanKind::wait);
  wait.end += nanoseconds(1);  // extends into the forward that follows
  const auto rank = attributed(measured).at(1);
  EXPECT_EQ(sum(rank), rank.wall);
  EXPECT_EQ(rank.beyond, nanoseconds(1));
  EXPECT_NE(problem_of(rank).find("1.000 ms of records overlap"), std::string::npos) << problem_of(rank);
}

TEST(Attribution, TokensFromTheFutureAndEmptyRecordsDoNoHarm) {
  const Schedule schedule = one_f_one_b(2, 4);
  auto measured = made_up(schedule, even(schedule));
  for (auto& record : measured.traces[1].compute) {  // a clock that is behind
    record.begin -= 1000;
    record.end -= 1000;
  }
  TraceRecord empty = measured.traces[0].compute.front();
  empty.kind = SpanKind::wait;
  empty.reason = WaitReason::gradient;
  empty.end = empty.begin - 5;
  measured.traces[0].compute.push_back(empty);
  expect_whole(attributed(measured));
}

TEST(Attribution, ProblemsAreFound) {
  Attribution attribution;
  attribution.wall = 1000;
  EXPECT_NE(problem_of(attribution), "");
  attribution[Cause::other] = 996;
  EXPECT_EQ(problem_of(attribution), "");
  attribution[Cause::other] = 994;
  EXPECT_NE(problem_of(attribution), "");
  attribution[Cause::other] = 1010;
  attribution[Cause::data] = -10;
  EXPECT_NE(problem_of(attribution).find("data is -10 ns"), std::string::npos);
}

TEST(View, RefusesATraceThatIsNotTheWholeList) {
  const Schedule schedule = one_f_one_b(2, 4);
  auto measured = made_up(schedule, even(schedule));
  auto& records = measured.traces[1].compute;
  const auto forward = std::find_if(records.begin(), records.end(), [](const auto& record) { return record.kind == SpanKind::forward; });
  const auto kept = *forward;
  records.erase(forward);
  try {
    static_cast<void>(view_of(schedule, measured.traces, step));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("rank 1 has 7 actions of step 2, its list has 8"), std::string::npos) << error.what();
  }
  auto other = kept;
  other.microbatch = MicrobatchId(3);
  records.push_back(other);
  EXPECT_THROW(static_cast<void>(view_of(schedule, measured.traces, step)), Error);
}

TEST(View, LeavesOutTheEvaluationBeforeTheStep) {
  const Schedule schedule = one_f_one_b(2, 4);
  auto measured = made_up(schedule, even(schedule));
  const auto alone = view_of(schedule, measured.traces, StepId(2));
  for (auto& trace : measured.traces) {
    TraceRecord forward = trace.compute.front();  // of step 1
    forward.step = StepId(2);
    forward.kind = SpanKind::forward;
    trace.compute.insert(trace.compute.begin() + 3, forward);
  }
  EXPECT_TRUE(is_whole(schedule, measured.traces, StepId(2)));
  const auto view = view_of(schedule, measured.traces, StepId(2));
  EXPECT_EQ(view.begin, alone.begin);
  for (std::size_t rank = 0; rank < view.ranks.size(); ++rank) EXPECT_EQ(view.ranks[rank].actions, alone.ranks[rank].actions);
}

TEST(View, GivesASnapshotToTheStepThatItDelays) {
  const Schedule schedule = one_f_one_b(2, 4);
  auto measured = made_up(schedule, even(schedule));
  const auto before = view_of(schedule, measured.traces, StepId(1)), alone = view_of(schedule, measured.traces, StepId(2));
  TraceRecord snapshot;
  snapshot.kind = SpanKind::snapshot;
  snapshot.step = StepId(1);
  snapshot.begin = alone.begin - nanoseconds(0.5);  // rank 1 waits for its first activation from 0 to 2 ms
  snapshot.end = alone.begin + nanoseconds(1.5);
  measured.traces[1].compute.push_back(snapshot);
  EXPECT_EQ(view_of(schedule, measured.traces, StepId(1)).end, before.end);
  const auto view = view_of(schedule, measured.traces, StepId(2));
  EXPECT_EQ(view.begin, alone.begin);
  EXPECT_EQ(view.end, alone.end);
  const auto rank = attribute(schedule, view).at(1), without = attribute(schedule, alone).at(1);
  EXPECT_EQ(problem_of(rank), "");
  EXPECT_EQ(rank.beyond, 0);
  EXPECT_EQ(rank[Cause::checkpoint], nanoseconds(1.5));
  EXPECT_EQ(rank.idle(), without.idle() - nanoseconds(1.5));
}

TEST(View, KnowsAStepThatTheRingHasLostTheBeginningOf) {
  const Schedule schedule = one_f_one_b(2, 4);
  auto measured = made_up(schedule, even(schedule));
  EXPECT_TRUE(is_whole(schedule, measured.traces, StepId(1)));
  EXPECT_FALSE(is_whole(schedule, measured.traces, StepId(3)));
  auto& records = measured.traces[1].compute;
  records.erase(std::find_if(records.begin(), records.end(), [](const TraceRecord& record) { return record.kind == SpanKind::forward; }));
  EXPECT_FALSE(is_whole(schedule, measured.traces, StepId(1)));
  EXPECT_TRUE(is_whole(schedule, measured.traces, StepId(2)));
}

/// A rank's only step: segments of actions that take turns, each with its begin and end in milliseconds.
struct Ran {
  int action, segment;
  double begin, end;
};

RankTrace trace_of(const std::vector<Action>& list, RankId rank, const std::vector<Ran>& segments, double end) {
  RankTrace trace{rank, {}, {}};
  TraceRecord whole;
  whole.kind = SpanKind::step;
  whole.step = step;
  whole.end = nanoseconds(end);
  trace.compute.push_back(whole);
  for (const Ran& ran : segments) {
    const Action& action = list[static_cast<std::size_t>(ran.action)];
    TraceRecord record;
    record.step = step;
    record.kind = span_of(action.kind);
    record.stage = action.stage;
    record.microbatch = action.microbatch;
    record.segment = static_cast<std::uint16_t>(ran.segment);
    record.begin = nanoseconds(ran.begin);
    record.end = nanoseconds(ran.end);
    trace.compute.push_back(record);
  }
  return trace;
}

TEST(View, HasTheActionsOfAWovenListInItsOrder) {
  Schedule schedule = table(Placement::single(1), 2, {"0F0 0F1 0B0 0B1"});
  schedule.ranks[0][0].overlaps_next = true;
  Measured measured = made_up(schedule, even(schedule), 0);
  measured.traces = {
      trace_of(schedule.ranks[0], RankId(0), {{1, 0, 0, 1}, {0, 0, 1, 3}, {1, 1, 3, 6}, {0, 1, 6, 7}, {2, 0, 7, 9}, {3, 0, 9, 11}}, 11)};
  measured.steps = {step};
  measured.losses = {5};
  const auto view = view_of(schedule, measured.traces, step);
  const auto& actions = view.ranks[0].actions;
  ASSERT_EQ(actions.size(), 4U);
  EXPECT_EQ(actions[0].begin, nanoseconds(1));
  EXPECT_EQ(actions[0].end, nanoseconds(7));
  EXPECT_EQ(actions[1].begin, nanoseconds(0));
  EXPECT_EQ(actions[1].end, nanoseconds(6));
  EXPECT_DOUBLE_EQ(computing(view.ranks[0].segments[0]), 3);
  const auto rank = attribute(schedule, view).at(0);
  EXPECT_EQ(problem_of(rank), "");
  EXPECT_EQ(rank[Cause::forward], nanoseconds(7));
  EXPECT_EQ(rank[Cause::backward], nanoseconds(4));
  EXPECT_EQ(trace_problems(trace_json(analyze(measured))), std::vector<std::string>{});

  schedule.ranks[0][0].overlaps_next = false;
  try {
    static_cast<void>(view_of(schedule, measured.traces, step));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("rank 0 began 0F1, entry 1 of its list, before 0F0 in step 2"), std::string::npos)
        << error.what();
  }
}

TEST(MeanCosts, AreWhatTheActionsTook) {
  const Schedule schedule = zb_h1(4, 8);
  auto costs = even(schedule);
  costs.stages[2] = {3, 1, 5, 0};
  const auto measured = made_up(schedule, costs, 1);
  const auto view = view_of(schedule, measured.traces, step);
  const auto found = mean_costs(schedule, {&view, 1});
  EXPECT_NEAR(found.stages[2].weight_gradient, 5, 1e-6);
  EXPECT_NEAR(found.stages[1].input_gradient, 2, 1e-6);
  EXPECT_EQ(found.stages[1].backward, 0);
  EXPECT_NEAR(alike(found).stages[3].forward, 2.25, 1e-6);
}

// Rank 0 waits 4 ms for rank 1, which posts its rows late, and then half a millisecond for them.
TEST(MeanCosts, OfSegmentsAreWithoutTheirWaits) {
  const Schedule schedule = replicate(table(Placement::single(1), 1, {"0F0 0B0"}), 2);
  Exchanging exchanging;
  StageShape shape;
  shape.of(ActionKind::forward) = {SegmentShape{-1, 1}, SegmentShape{0, 0}};
  exchanging.shapes = {shape, shape};
  exchanging.members = {{RankId(0), RankId(1)}, {RankId(0), RankId(1)}};
  const std::vector<RankTrace> traces = {trace_of(schedule.ranks[0], RankId(0), {{0, 0, 0, 1}, {0, 1, 5.5, 8.5}, {1, 0, 8.5, 10}}, 10),
                                         trace_of(schedule.ranks[1], RankId(1), {{0, 0, 0, 5}, {0, 1, 6, 11}, {1, 0, 11, 12}}, 12)};
  const auto view = view_of(schedule, traces, step);
  const Costs costs = mean_costs(schedule, {&view, 1}, exchanging);
  EXPECT_NEAR(costs.stages[0].forward, 4, 1e-6);
  EXPECT_NEAR(costs.stages[1].forward, 10, 1e-6);
  const SegmentCosts& first = costs.exchanges.at(0).of(ActionKind::forward);
  EXPECT_NEAR(first.compute.at(0), 0.25, 1e-6);
  EXPECT_NEAR(first.compute.at(1), 0.75, 1e-6);
  EXPECT_NEAR(first.exchange.at(0), 0.5, 1e-6);
  EXPECT_NEAR(costs.exchanges.at(1).of(ActionKind::forward).exchange.at(0), 1, 1e-6);
  const Simulation predicted = simulate(schedule, costs);
  EXPECT_NEAR(predicted.begin[predicted.at(RankId(0), 1)], 9, 1e-6);  // rank 1's link gives its rows after 6 ms
  EXPECT_NEAR(predicted.makespan, 12, 1e-6);
}

}  // namespace
}  // namespace millrace::runtime
