// Transfers between replicas in simulated lists.

#include "runtime/schedule/simulator/transfer_lane.hpp"

#include "runtime/schedule/simulator/lost_time.hpp"
#include "runtime/schedule/simulator/segment_simulation.hpp"
#include "runtime/schedule/simulator/simulate.hpp"
#include "tests/runtime/schedule/schedule_support.hpp"

namespace millrace::runtime {
namespace {

/// One rank, two stages, one microbatch: F0 F1 B1 B0, of 1 1 2 2.
struct OneRank {
  Schedule schedule = looped_bfs(1, 2, 1);
  Costs costs;

  explicit OneRank(std::vector<ListTransfer> transfers) {
    costs.stages.assign(2, StageCost{});
    costs.transfers.push_back(std::move(transfers));
  }
  /// Both simulators, which must agree.
  [[nodiscard]] Simulation run() const {
    const Simulation simulation = simulate(schedule, costs);
    Costs with_segments = costs;
    with_segments.exchanges.resize(2);
    const Simulation other = simulate(schedule, with_segments);
    EXPECT_EQ(other.begin, simulation.begin);
    EXPECT_EQ(other.transferred, simulation.transferred);
    EXPECT_EQ(other.ranks[0].weights, simulation.ranks[0].weights);
    return simulation;
  }
};

TEST(TransferLane, HidesWhatComputationCovers) {
  // The first stage's weights take 1, those of the second come while the first computes; its gradients leave while the first's are made.
  const OneRank one({{0, 0, 1}, {0, 1, 1}, {3, -1, 1.5}, {4, -1, 0.5}});
  const Simulation simulation = one.run();
  EXPECT_EQ(simulation.begin, (std::vector<double>{1, 2, 3, 5}));
  EXPECT_EQ(simulation.makespan, 7);
  EXPECT_EQ(simulation.transferred, 7.5);
  EXPECT_EQ(simulation.ranks[0].weights, 1);
  EXPECT_EQ(simulation.ranks[0].busy, 6);
  const LostTime lost = lost_time(one.schedule, one.costs);
  EXPECT_EQ(lost.weights, 1);
  EXPECT_EQ(lost.makespan(), simulation.makespan);
}

TEST(TransferLane, MakesActionsWaitForWeights) {
  // With one slot the second stage is gathered after the first has computed, and the first again after the second.
  const Simulation simulation = OneRank({{0, 0, 1}, {1, 1, 3}, {3, -1, 1}, {3, 3, 3}}).run();
  EXPECT_EQ(simulation.begin, (std::vector<double>{1, 5, 6, 12})) << "a gather waits for the reduction before it";
  EXPECT_EQ(simulation.ranks[0].weights, 1 + 3 + 4);
  EXPECT_EQ(simulation.transferred, simulation.makespan);
  EXPECT_EQ(simulation.bindings[1].bound, Bound::weights);
  EXPECT_EQ(simulation.bindings[1].source, 0U);
  EXPECT_EQ(simulation.bindings[3].source, 2U);
}

TEST(TransferLane, AreNoneByDefault) {
  const Simulation simulation = OneRank({}).run();
  EXPECT_EQ(simulation.begin, (std::vector<double>{0, 1, 2, 4}));
  EXPECT_EQ(simulation.transferred, simulation.makespan);
  Costs wrong;
  wrong.stages.assign(2, StageCost{});
  wrong.transfers.resize(2);
  expect_contains(error_of(ExitCode::internal, [&] { static_cast<void>(simulate(looped_bfs(1, 2, 1), wrong)); }),
                  "2 ranks with transfers, expected 1");
}

}  // namespace
}  // namespace millrace::runtime
