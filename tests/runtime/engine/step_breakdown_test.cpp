#include "runtime/engine/step_breakdown.hpp"

#include <gtest/gtest.h>

namespace millrace::runtime {
namespace {

constexpr StepId recorded_step{3};

TraceRecord span(SpanKind kind, std::int64_t begin, std::int64_t end, WaitReason reason = WaitReason::none, std::int64_t produced = 0) {
  TraceRecord record;
  record.begin = begin;
  record.end = end;
  record.produced = produced;
  record.step = recorded_step;
  record.kind = kind;
  record.reason = reason;
  return record;
}

TEST(SplitWait, CutsWhereTheProducerFinished) {
  struct Case {
    std::int64_t begin, end, produced, before, after;
  };
  const Case cases[] = {
      {100, 200, 150, 50, 50}, {100, 200, 50, 0, 100},  // sent before the wait began: all of it is transport
      {100, 200, 250, 100, 0},                          // the sender's clock is ahead: all of it is bubble, and nothing is negative
      {100, 200, 0, 100, 0},                            // unknown
      {100, 100, 100, 0, 0},   {200, 100, 150, 0, 0},
  };
  for (const Case& wait : cases) {
    const SplitWait split = split_wait(wait.begin, wait.end, wait.produced);
    EXPECT_EQ(split.before, wait.before);
    EXPECT_EQ(split.after, wait.after);
  }
}

TEST(Summarize, EveryNanosecondHasOnePlace) {
  const TraceRecord records[] = {
      span(SpanKind::wait, 1000, 1100, WaitReason::batch),
      span(SpanKind::wait, 1100, 1300, WaitReason::activation, 1250),
      span(SpanKind::forward, 1300, 1400),
      span(SpanKind::wait, 1400, 1430, WaitReason::gradient),
      span(SpanKind::input_gradient, 1430, 1500),
      span(SpanKind::weight_gradient, 1500, 1560),
      span(SpanKind::wait, 1560, 1567, WaitReason::credit),
      span(SpanKind::backward, 1567, 1580),
      span(SpanKind::wait, 1580, 1591, WaitReason::exchange),  // between two segments
      span(SpanKind::backward, 1591, 1600),
      span(SpanKind::snapshot, 1600, 1610),
      span(SpanKind::optimizer, 1620, 1700),
      span(SpanKind::checkpoint_write, 1000, 1900),  // on another lane
      span(SpanKind::step, 990, 1750),
  };
  const StepBreakdown shares = summarize(records, recorded_step);
  EXPECT_EQ(shares.wall, 760);
  EXPECT_EQ(shares.compute, 100 + 70 + 60 + 22);
  EXPECT_EQ(shares.bubble, 150 + 30);
  EXPECT_EQ(shares.transport, 50);
  EXPECT_EQ(shares.credit, 7);
  EXPECT_EQ(shares.exchange, 11);
  EXPECT_EQ(shares.data, 100);
  EXPECT_EQ(shares.optimizer, 10 + 80);
  EXPECT_EQ(shares.other, 10 + 10 + 50);
  EXPECT_EQ(shares.wall, shares.compute + shares.bubble + shares.transport + shares.credit + shares.exchange + shares.data +
                             shares.optimizer + shares.other);
  EXPECT_DOUBLE_EQ(shares.share(shares.transport), 50.0 / 760.0);
}

TEST(Summarize, OtherStepsAndTheOutsideAreLeftOut) {
  TraceRecord before = span(SpanKind::forward, 0, 50);
  before.step = StepId{2};
  const TraceRecord records[] = {before, span(SpanKind::forward, 90, 120), span(SpanKind::step, 100, 200),
                                 span(SpanKind::wait, 180, 260, WaitReason::activation, 190)};
  const StepBreakdown shares = summarize(records, recorded_step);
  EXPECT_EQ(shares.wall, 100);
  EXPECT_EQ(shares.compute, 20);
  EXPECT_EQ(shares.bubble, 10);
  EXPECT_EQ(shares.transport, 10);
  EXPECT_EQ(shares.other, 60);
}

TEST(Summarize, WithoutAStepRecordTheWallIsFirstToLast) {
  const TraceRecord records[] = {span(SpanKind::forward, 10, 20), span(SpanKind::backward, 30, 50)};
  EXPECT_EQ(summarize(records, recorded_step).wall, 40);
  EXPECT_EQ(summarize(records, recorded_step).other, 10);
  EXPECT_EQ(summarize({}, recorded_step), StepBreakdown{});
  EXPECT_EQ(summarize({}, recorded_step).share(0), 0.0);
}

TEST(Sum, AddsRanks) {
  StepBreakdown one;
  one.wall = 100;
  one.bubble = 50;
  StepBreakdown two;
  two.wall = 100;
  two.bubble = 10;
  two.other = 4;
  const StepBreakdown ranks[] = {one, two};
  EXPECT_DOUBLE_EQ(sum(ranks).share(sum(ranks).bubble), 0.3);
  EXPECT_EQ(sum(ranks).other, 4);
}

}  // namespace
}  // namespace millrace::runtime
