#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/actors/rank_control_bench.hpp"

// Copies that divide the update of their weights (mesh.shard = optimizer), run by the controls of all ranks in one thread.
namespace millrace::actors {
namespace {

using runtime::SpanKind;

TEST(DividedUpdate, LeavesAllCopiesWithTheParametersOfWholeUpdates) {
  for (const std::size_t window : {std::size_t{4} << 20, std::size_t{512}}) {
    Bench whole({.copies = 4, .ranks = 1, .microbatches = 8, .accumulators = 4});
    Bench divided({.copies = 4, .ranks = 1, .microbatches = 8, .accumulators = 4, .divides = true, .window = window});
    for (Bench* bench : {&whole, &divided}) {
      bench->begin();
      for (std::int64_t step = 0; step < 3; ++step) bench->train(step);
    }
    for (std::size_t rank = 0; rank < 4; ++rank) EXPECT_TRUE(divided.parameters(rank) == whole.parameters(rank)) << rank;
    EXPECT_EQ(whole.seats[0]->reported<Optimized>().size(), 3U);
    EXPECT_EQ(divided.seats[3]->reported<Optimized>().size(), 3U);
    if (window == 512) EXPECT_GT(divided.seats[0]->rank->compute().reduction().steps.size(), 4U);
  }
}

TEST(DividedUpdate, HoldsAndSendsItsPart) {
  Bench whole({.copies = 4, .ranks = 1, .microbatches = 8, .accumulators = 4});
  Bench divided({.copies = 4, .ranks = 1, .microbatches = 8, .accumulators = 4, .divides = true});
  std::size_t states = 0;
  std::int64_t sent = 0;
  divided.begin();
  divided.train(0);
  for (const auto& seat : divided.seats) {
    states += seat->rank->compute().memory_plan().bytes(runtime::MemoryKind::state);
    sent += seat->rank->replicas()->bytes_sent();
  }
  const auto& plan = whole.seats[0]->rank->compute().memory_plan();
  EXPECT_EQ(states, plan.bytes(runtime::MemoryKind::state)) << "between the four as much as each has otherwise";
  // 3 / 4 of the gradients and of the parameters leave each of the four.
  EXPECT_EQ(sent, static_cast<std::int64_t>(3 * (plan.bytes(runtime::MemoryKind::accumulator) + plan.bytes(runtime::MemoryKind::master))));
}

// The control gets the end of an exchange late, after that of the next one.
TEST(DividedUpdate, WaitsForTheExchangesOfTheSums) {
  Bench bench({.copies = 2, .ranks = 1, .accumulators = 2, .divides = true});
  bench.begin();
  bench.tell(RunStep{0, false, false}, {"replicas"});
  for (const auto& seat : bench.seats) {
    EXPECT_TRUE(seat->reported<StepReport>().empty());
    EXPECT_NE(seat->doing().find("waits for gradient sums of replicas"), std::string::npos) << seat->doing();
  }
  bench.settle();
  EXPECT_EQ(bench.seats[1]->reported<StepReport>().size(), 1U);
  const auto waits = bench.seats[0]->spans(SpanKind::wait);
  EXPECT_TRUE(std::ranges::any_of(waits, [](const auto& wait) { return wait.reason == runtime::WaitReason::replicas; }));
  bench.tell(Optimize{0, 1, 0.5, 0.01}, {"replicas"});
  EXPECT_TRUE(bench.seats[0]->reported<Optimized>().empty()) << "the other's parameters are not here";
  bench.settle();
  EXPECT_EQ(bench.seats[0]->reported<Optimized>().size(), 1U);
  EXPECT_TRUE(bench.parameters(0) == bench.parameters(1));
  EXPECT_NE(bench.seats[0]->doing().find("waits for the coordinator"), std::string::npos) << bench.seats[0]->doing();
}

TEST(DividedUpdate, ASkippedStepChangesNothing) {
  Bench bench({.copies = 2, .ranks = 1, .accumulators = 2, .divides = true});
  bench.begin();
  const auto before = bench.parameters(0);
  bench.tell(RunStep{0, false, false});
  Optimize skipped{0, 1, 0.5, 0.01};
  skipped.skip = true;
  bench.tell(skipped);
  EXPECT_EQ(bench.seats[0]->reported<Optimized>().size(), 1U);
  EXPECT_TRUE(bench.parameters(0) == before);
  bench.train(1);
  EXPECT_FALSE(bench.parameters(0) == before);
  EXPECT_TRUE(bench.parameters(0) == bench.parameters(1));
}

}  // namespace
}  // namespace millrace::actors
