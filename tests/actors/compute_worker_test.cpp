#include "actors/rank/compute_worker.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/expect_error.hpp"

namespace millrace::actors {
namespace {

TEST(ComputeWorker, RunsInTheOrderOfTickets) {
  std::vector<int> order;
  {
    ComputeWorker worker(16, {}, {});
    auto* list = &order;
    const auto post = [&](int ticket) { worker.post_in_order(ticket, [list, ticket] { list->push_back(ticket); }); };
    for (const int ticket : {1, 0, 4, 3, 2, 5, 7, 6}) post(ticket);
    worker.run([] {});
    for (const int ticket : {9, 8}) post(ticket);
  }
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(ComputeWorker, TellsWhenItHasWorkAndWhenItHasNone) {
  std::vector<bool> told;  // the worker's, until it has joined
  {
    ComputeWorker worker(16, {}, {}, [&told](bool computing) { told.push_back(computing); });
    for (int turn = 0; turn < 3; ++turn) {
      worker.run([] {});
      worker.post([] {});
    }
  }
  ASSERT_GE(told.size(), 2U);
  ASSERT_EQ(told.size() % 2, 0U) << "ends without work";
  for (std::size_t index = 0; index < told.size(); ++index) EXPECT_EQ(told[index], index % 2 == 0) << "by turns";
}

TEST(ComputeWorker, RefusesTicketsTooFarAheadOrGivenTwice) {
  ComputeWorker worker(4, {}, {});
  worker.post_in_order(0, [] {});
  tests::expect_error([&] { worker.post_in_order(0, [] {}); }, ExitCode::internal, {"ticket 0", "1 to 4"});
  tests::expect_error([&] { worker.post_in_order(5, [] {}); }, ExitCode::internal, {"ticket 5"});
}

TEST(ComputeWorker, ThrowsWhatItsStartThrew) {
  tests::expect_error([] { ComputeWorker(4, [] { fail(ExitCode::start, "test", "no more threads"); }, {}); }, ExitCode::start,
                      {"no more threads"});
}

}  // namespace
}  // namespace millrace::actors
