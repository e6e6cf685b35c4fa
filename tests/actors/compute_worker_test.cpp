#include "actors/rank/compute_worker.hpp"

#include <gtest/gtest.h>

#include <future>
#include <thread>
#include <vector>

#include "tests/support/expect_error.hpp"

namespace millrace::actors {
namespace {

using Load = ComputeWorker::Load;

TEST(ComputeWorker, RunsInTheOrderOfPostsOfEitherLoad) {
  std::vector<int> order;
  {
    ComputeWorker worker(64, {}, {});
    auto* list = &order;
    for (int task = 0; task < 20; ++task)
      worker.post(task % 3 == 0 ? Load::computes : Load::decides, [list, task] { list->push_back(task); });
  }
  ASSERT_EQ(order.size(), 20U);
  for (int task = 0; task < 20; ++task) EXPECT_EQ(order[static_cast<std::size_t>(task)], task);
}

TEST(ComputeWorker, SaysWhenItComputesAndWhenItHasNoTask) {
  std::vector<bool> said;  // written by the worker, read after it has joined
  {
    ComputeWorker worker(16, {}, {}, [&said](bool computing) { said.push_back(computing); });
    for (int turn = 0; turn < 3; ++turn) {
      worker.run([] {});
      worker.post(Load::computes, [] {});
    }
  }
  ASSERT_GE(said.size(), 2U);
  ASSERT_EQ(said.size() % 2, 0U) << "ends without work";
  for (std::size_t index = 0; index < said.size(); ++index) EXPECT_EQ(said[index], index % 2 == 0) << "by turns";
}

/// The transport thread may sleep while all workers compute, so a worker that only makes decisions must not report that it
/// computes.
TEST(ComputeWorker, DoesNotComputeWhileItDecides) {
  int said = 0;
  {
    ComputeWorker worker(16, {}, {}, [&said](bool) { ++said; });
    for (int task = 0; task < 5; ++task) worker.post(Load::decides, [] {});
  }
  EXPECT_EQ(said, 0);
}

TEST(ComputeWorker, RunFromTheWorkerItselfIsACall) {
  ComputeWorker worker(16, {}, {});
  std::thread::id outer, inner;
  worker.run([&] {
    outer = std::this_thread::get_id();
    worker.run([&] { inner = std::this_thread::get_id(); });
  });
  EXPECT_EQ(inner, outer);
  EXPECT_NE(inner, std::this_thread::get_id());
  tests::expect_error([&] { worker.run([] { fail(ExitCode::data, "test", "no tokens"); }); }, ExitCode::data, {"no tokens"});
}

TEST(ComputeWorker, RefusesMoreTasksThanItHasRoomFor) {
  std::promise<void> gate;
  const std::shared_future<void> open = gate.get_future().share();
  ComputeWorker worker(2, {}, {});
  std::promise<void> started;
  const auto* wait = &open;
  auto* begun = &started;
  worker.post(Load::computes, [wait, begun] {
    begun->set_value();
    wait->wait();
  });
  started.get_future().get();
  worker.post(Load::decides, [] {});
  worker.post(Load::decides, [] {});
  tests::expect_error([&] { worker.post(Load::decides, [] {}); }, ExitCode::internal, {"2 tasks are waiting already"});
  gate.set_value();
}

TEST(ComputeWorker, ThrowsWhatItsStartThrew) {
  tests::expect_error([] { ComputeWorker(4, [] { fail(ExitCode::start, "test", "no more threads"); }, {}); }, ExitCode::start,
                      {"no more threads"});
}

}  // namespace
}  // namespace millrace::actors
