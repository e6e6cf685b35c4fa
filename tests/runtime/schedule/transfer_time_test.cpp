#include "runtime/schedule/simulator/transfer_time.hpp"

#include "runtime/schedule/simulator/replay.hpp"
#include "tests/runtime/schedule/schedule_support.hpp"

namespace millrace::runtime {
namespace {

TEST(TransferTime, SharedQueuesCostWhatAnotherModelSays) {
  // Step times of an independent model, F = I = W = 1. Its interleaved-zb is 0.2 below ours, equally in all columns; dualpipe-v
  // takes 56.2 where a queue belongs to two ranks rather than to two stages.
  struct Row {
    ScheduleRequest request;
    double latency, rank, direction, edge, free;
  };
  const Row rows[] = {
      {{"interleaved", 8, 2, 16, {}}, 0.02, 86.1, 85.0, 59.1, 59.1},    {{"interleaved-zb", 8, 2, 16, {}}, 0.02, 77.5, 77.5, 52.4, 52.4},
      {{"zb-v", 8, 2, 16, {}}, 0.02, 58.5, 57.9, 52.2, 52.2},           {{"dualpipe-v", 8, 2, 16, {}}, 0.02, 78.7, 76.1, 55.8, 55.8},
      {{"interleaved", 8, 4, 32, {}}, 0.1, 192.6, 186.5, 107.4, 107.4}, {{"1f1b", 8, 1, 16, {}}, 0.02, 69.8, 69.8, 69.8, 69.8},
      {{"zb-h1", 8, 1, 16, {}}, 0.02, 55.6, 55.6, 55.6, 55.6},
  };
  for (const Row& row : rows) {
    const Schedule schedule = make_schedule(row.request);
    const auto costs = uniform_costs(schedule.placement, 1, 1, 1);
    const auto time = [&](TransferOrder order) { return transfer_makespan(schedule, costs, row.latency, order); };
    EXPECT_NEAR(time(TransferOrder::rank_fifo), row.rank, 0.12) << name_of(row.request);
    EXPECT_NEAR(time(TransferOrder::direction_fifo), row.direction, 0.12) << name_of(row.request);
    EXPECT_NEAR(time(TransferOrder::edge_fifo), row.edge, 0.12) << name_of(row.request);
    EXPECT_NEAR(time(TransferOrder::free), row.free, 0.12) << name_of(row.request);
  }
}

TEST(TransferTime, WithoutQueuesItIsTheSimulator) {
  // Receives that are posted late could still delay a boundary, so this holds only without latency.
  for (const ScheduleRequest& request : one_of_each(4, 8)) {
    const Schedule schedule = make_schedule(request);
    const auto costs = uniform_costs(schedule.placement, 1, 1.1, 0.8);
    const double least = replay(schedule, costs, 0).makespan;
    EXPECT_NEAR(transfer_makespan(schedule, costs, 0, TransferOrder::free), least, 1e-9) << request.name;
    EXPECT_GE(transfer_makespan(schedule, costs, 0, TransferOrder::rank_fifo), least - 1e-9) << request.name;
  }
}

// Both stages share the rank, so that the first edge is local: what it carries is there when its producer is done.
TEST(TransferTime, ALocalEdgeCostsNoTransfer) {
  const Schedule schedule = make_schedule({"looped-bfs", 1, 2, 4, {}});
  const auto costs = uniform_costs(schedule.placement, 1, 1.1, 0.8);
  for (const TransferOrder order : {TransferOrder::rank_fifo, TransferOrder::direction_fifo, TransferOrder::edge_fifo, TransferOrder::free})
    EXPECT_NEAR(transfer_makespan(schedule, costs, 100, order), 4 * (1 + 1.1 + 0.8), 1e-9);
}

TEST(TransferTime, ARendezvousHasNoQueues) {
  expect_contains(
      error_of(ExitCode::config, [] { (void)transfer_makespan(gpipe(2, 2), std::vector<StageCost>(2), 0, TransferOrder::rendezvous); }),
      "the transfer order rendezvous has no queues to time");
}

}  // namespace
}  // namespace millrace::runtime
