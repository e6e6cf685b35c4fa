#include "actors/rank/sum_exchange.hpp"

#include <gtest/gtest.h>

namespace millrace::actors {
namespace {

/// Two copies of a pipeline of one rank, which send each other the sums of their microbatches.
PipelinePlan two_copies() {
  PlanRequest request;
  request.model.vocab_size = 61;
  request.model.hidden_size = 16;
  request.model.intermediate_size = 24;
  request.model.layers = 1;
  request.model.heads = request.model.kv_heads = 2;
  request.model.head_dim = 8;
  request.train.batch = 1;
  request.train.sequence = 8;
  request.train.microbatches = 2;
  request.train.accumulators = 2;
  request.mesh.data = 2;
  return make_plan(request);
}

TEST(SumExchange, KeepsTheSumsOfACopyThatIsAStepAhead) {
  const PipelinePlan plan = two_copies();
  SumExchangeState exchange(plan, runtime::RankId(1));
  ASSERT_EQ(exchange.rounds().size(), 1U);
  ASSERT_EQ(exchange.round().incoming.size(), 1U);
  const int channel = exchange.round().incoming.front().message->channel;
  const auto sums_of = [channel](std::int64_t step) { return cluster::Arrival{channel, step, nullptr, 0, 0}; };

  EXPECT_FALSE(exchange.arrived(sums_of(0))) << "the first step has not begun";
  for (std::int64_t step = 0; step < 3; ++step) {
    exchange.begin();
    EXPECT_TRUE(exchange.sent()) << "the other copy's sums of step " << step << " came before it began";
    EXPECT_FALSE(exchange.next_round());
    EXPECT_FALSE(exchange.may_report());
    EXPECT_TRUE(exchange.writable());
    EXPECT_FALSE(exchange.arrived(sums_of(step + 1))) << "those of step " << step + 1 << " are added to step " << step;
  }
}

TEST(SumExchange, AddsTheSumsOfItsStepOnceItsOwnAreSent) {
  const PipelinePlan plan = two_copies();
  SumExchangeState exchange(plan, runtime::RankId(0));
  const int channel = exchange.round().incoming.front().message->channel;
  exchange.begin();
  EXPECT_FALSE(exchange.sent());
  EXPECT_TRUE(exchange.arrived({channel, 0, nullptr, 0, 0}));
  exchange.begin();
  EXPECT_FALSE(exchange.sent()) << "the sums of the step before were taken for this step's";
  EXPECT_TRUE(exchange.arrived({channel, 1, nullptr, 0, 0}));
}

}  // namespace
}  // namespace millrace::actors
