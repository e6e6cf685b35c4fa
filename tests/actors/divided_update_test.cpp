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
    EXPECT_TRUE(window > 512 || divided.seats[0]->rank->compute().reduction().steps.size() > 4);
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

// A rank that posted first hears late that the other has posted too.
TEST(DividedUpdate, WaitsForTheExchangesOfTheSums) {
  Bench bench({.copies = 2, .ranks = 1, .accumulators = 2, .divides = true, .window = 512});
  bench.begin();
  bench.tell(RunStep{0, false, false}, {"replicas"});
  for (const auto& seat : bench.seats) {
    EXPECT_TRUE(seat->reported<StepReport>().empty());
    EXPECT_NE(seat->doing().find("waits for gradient sums of replicas"), std::string::npos) << seat->doing();
  }
  bench.settle();
  for (const auto& seat : bench.seats) EXPECT_EQ(seat->reported<StepReport>().size(), 1U);
  EXPECT_TRUE(std::ranges::any_of(bench.seats[0]->spans(SpanKind::wait),
                                  [](const auto& wait) { return wait.reason == runtime::WaitReason::replicas; }));
}

// The coordinator goes on at once; a list waits for what the others have updated of its first stage.
TEST(DividedUpdate, GathersParametersUnderTheNextList) {
  Bench bench({.copies = 2, .ranks = 1, .accumulators = 2, .divides = true, .window = 64});
  bench.begin();
  bench.tell(RunStep{0, false, false});
  bench.tell(Optimize{0, 1, 0.5, 0.01}, {"replicas"});
  auto& first = *bench.seats[0];
  EXPECT_GT(first.rank->compute().reduction().gathers.size(), 8U) << "more than may be under way";
  EXPECT_EQ(first.reported<Optimized>().size(), 1U);
  EXPECT_FALSE(bench.parameters(0) == bench.parameters(1)) << "something is missing";
  const std::size_t executed = first.executes.size();
  bench.tell(RunStep{1, false, false}, {"replicas"});
  EXPECT_EQ(first.executes.size(), executed) << "no action began without its weights";
  EXPECT_NE(first.doing().find("waits for parameters of replicas"), std::string::npos) << first.doing();
  bench.settle();
  EXPECT_TRUE(bench.parameters(0) == bench.parameters(1));
  EXPECT_EQ(first.reported<StepReport>().size(), 2U);
  EXPECT_TRUE(
      std::ranges::any_of(first.spans(SpanKind::wait), [](const auto& wait) { return wait.reason == runtime::WaitReason::weights; }));
  EXPECT_NE(first.doing().find("waits for the coordinator"), std::string::npos) << first.doing();
}

// A snapshot is of weights that are all here, with everything that follows the update; the list after it comes after it.
TEST(DividedUpdate, DefersASnapshotUntilAllWeightsAreHere) {
  Bench bench({.copies = 2, .ranks = 1, .accumulators = 2, .divides = true, .window = 64});
  bench.begin();
  bench.tell(RunStep{0, false, false});
  bench.tell(Optimize{0, 1, 0.5, 0.01}, {"replicas"});
  bench.tell(TakeSnapshot{1, "folder"}, {"replicas"});
  bench.tell(RunStep{1, false, false}, {"replicas"});
  const auto& first = *bench.seats[0];
  EXPECT_TRUE(first.reported<SnapshotTaken>().empty());
  bench.settle();
  ASSERT_EQ(first.reported<SnapshotTaken>().size(), 1U);
  EXPECT_EQ(first.reported<StepReport>().size(), 2U);
  const auto is = [](RankTaskKind kind) { return [kind](const RankTask& task) { return task.work == kind; }; };
  const auto snapshot = std::ranges::find_if(first.tasks, is(RankTaskKind::snapshot));
  const auto optimizer = std::ranges::find_if(first.tasks, is(RankTaskKind::optimizer));
  EXPECT_LT(optimizer, snapshot);
  EXPECT_NE(std::find_if(snapshot, first.tasks.end(), is(RankTaskKind::list_sum)), first.tasks.end());
}

// Buckets leave in the order in which the backward pass completes them, and while it runs: no task of the worker has posted these.
TEST(DividedUpdate, SendsSumsWhileTheListRuns) {
  Bench bench({.copies = 2, .ranks = 1, .accumulators = 2, .divides = true, .window = 512});
  bench.begin();
  const auto& compute = bench.seats[0]->rank->compute();
  const auto& buckets = compute.stages().front()->shard_layout().buckets;
  ASSERT_GT(buckets.size(), 3U);
  std::size_t last = 0;
  for (const auto& step : compute.reduction().steps) {
    const std::size_t complete = buckets[step.bucket].complete[static_cast<std::size_t>(runtime::ProgramKind::backward)];
    EXPECT_GE(complete, last);
    last = complete;
  }
  EXPECT_NE(compute.reduction().steps.front().bucket, 0U) << "the embedding is complete last";
  bench.tell(RunStep{0, false, false}, {"replicas", "work"});
  // Two steps of 512 bytes are under way, until rank 0 hears of their end; of the table of these rank 0 owns all.
  EXPECT_EQ(bench.seats[1]->rank->replicas()->bytes_sent(), 2 * 512);
  EXPECT_LE(bench.pending("replicas"), 2) << "one message for each rank tells of all exchanges that have ended";
  bench.settle();
  EXPECT_EQ(bench.seats[0]->reported<StepReport>().size(), 1U);
}

// The evaluation has three microbatches for four copies. The copy without one is done before the others have its averages.
TEST(DividedUpdate, EvaluatesAveragesOnAllCopies) {
  Bench whole({.copies = 4, .ranks = 1, .microbatches = 8, .accumulators = 4, .average = 0.5});
  Bench divided({.copies = 4, .ranks = 1, .microbatches = 8, .accumulators = 4, .divides = true, .window = 64, .average = 0.5});
  std::vector<std::vector<double>> losses;
  for (Bench* bench : {&whole, &divided}) {
    bench->begin();
    auto& found = losses.emplace_back();
    for (std::int64_t step = 0; step < 3; ++step) {
      bench->train(step);
      bench->tell(Evaluate{step + 1, 3, true});
      for (const auto& seat : bench->seats) {
        const auto reports = seat->reported<EvaluationReport>();
        ASSERT_EQ(reports.size(), static_cast<std::size_t>(step) + 1);
        for (const auto& term : reports.back().losses) found.insert(found.end(), term.sums.begin(), term.sums.end());
      }
    }
  }
  EXPECT_EQ(losses[1], losses[0]);
  for (std::size_t rank = 0; rank < 4; ++rank) EXPECT_TRUE(divided.parameters(rank) == whole.parameters(rank)) << rank;
}

// Where a step's beginning is looked at, an update is over when all ranks have all parameters.
TEST(DividedUpdate, MayBeReportedAfterTheGather) {
  Bench bench({.copies = 2, .ranks = 1, .accumulators = 2, .divides = true, .window = 64, .gathers_first = true});
  bench.begin();
  bench.tell(RunStep{0, false, false});
  bench.tell(Optimize{0, 1, 0.5, 0.01}, {"replicas"});
  EXPECT_TRUE(bench.seats[0]->reported<Optimized>().empty());
  bench.settle();
  EXPECT_EQ(bench.seats[0]->reported<Optimized>().size(), 1U);
  EXPECT_TRUE(bench.parameters(0) == bench.parameters(1));
}

TEST(DividedGradients, LeaveAllCopiesWithTheParametersOfOneRank) {
  for (const std::size_t window : {std::size_t{4} << 20, std::size_t{512}}) {
    Bench one({.copies = 1, .ranks = 1, .microbatches = 12, .leaves = true});
    Bench divided({.copies = 4, .ranks = 1, .microbatches = 12, .leaves = true, .window = window});
    for (Bench* bench : {&one, &divided}) {
      bench->begin();
      for (std::int64_t step = 0; step < 3; ++step) bench->train(step);
    }
    for (std::size_t rank = 0; rank < 4; ++rank) EXPECT_TRUE(divided.parameters(rank) == one.parameters(0)) << rank;
  }
}

// The copies keep the sums of all weights between them; each has two slots for gradients of a microbatch.
TEST(DividedGradients, KeepAndSendTheirPart) {
  Bench one({.copies = 1, .ranks = 1, .microbatches = 8, .leaves = true});
  Bench divided({.copies = 4, .ranks = 1, .microbatches = 8, .leaves = true});
  divided.begin();
  divided.train(0);
  const auto& whole = one.seats[0]->rank->compute().memory_plan();
  EXPECT_EQ(whole.bytes(runtime::MemoryKind::leaf), whole.bytes(runtime::MemoryKind::accumulator));
  std::size_t sums = 0;
  std::int64_t sent = 0;
  for (const auto& seat : divided.seats) {
    const auto& plan = seat->rank->compute().memory_plan();
    sums += plan.bytes(runtime::MemoryKind::accumulator);
    EXPECT_EQ(plan.bytes(runtime::MemoryKind::leaf), 2 * whole.bytes(runtime::MemoryKind::leaf));
    sent += seat->rank->replicas()->bytes_sent();
  }
  EXPECT_EQ(sums, whole.bytes(runtime::MemoryKind::accumulator));
  // 3 / 4 of the gradients leave each of the four for each of its two microbatches, and of the parameters once.
  EXPECT_EQ(sent, static_cast<std::int64_t>(2 * 3 * sums + 3 * whole.bytes(runtime::MemoryKind::master)));
}

// A rank that the others have not followed stops when its slots are full, and says why.
TEST(DividedGradients, WaitForASlot) {
  Bench bench({.copies = 2, .ranks = 1, .microbatches = 8, .issue_ahead = 1, .leaves = true, .window = 512});
  bench.begin();
  bench.tell(RunStep{0, false, false}, {"replicas"});
  const auto& first = *bench.seats[0];
  EXPECT_TRUE(first.reported<StepReport>().empty());
  const auto backwards =
      std::ranges::count(first.executes, runtime::ActionKind::backward, [](const Execute& execute) { return execute.action.kind; });
  EXPECT_EQ(backwards, 2);
  EXPECT_NE(first.doing().find("waits for gradients of replicas"), std::string::npos) << first.doing();
  bench.settle();
  EXPECT_EQ(first.reported<StepReport>().size(), 1U);
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
