// Engines of all ranks together, in random order: see engine_pump.hpp.

#include "runtime/engine/rank_engine.hpp"
#include "runtime/schedule/ledger.hpp"
#include "runtime/schedule/validate.hpp"
#include "runtime/schedule/weave_pairs.hpp"
#include "tests/runtime/engine/engine_pump.hpp"

namespace millrace::runtime {
namespace {

std::vector<ScheduleRequest> requests() {
  std::vector<ScheduleRequest> all;
  for (int p = 1; p <= 4; ++p) {
    for (int m : {1, 2, 3, 5, 8}) {
      for (const char* name : {"gpipe", "1f1b", "zb-h1"}) all.push_back({name, p, 1, m, {}});
      for (int v = 1; v <= 3; ++v) all.push_back({"looped-bfs", p, v, m, {}});
      all.push_back({"1f1b", p, 1, m, one_f_one_b_warmup(p, 2 * (p - 1))});
    }
  }
  for (const ScheduleRequest& request : one_of_each(4, 8)) all.push_back(request);
  return all;
}

void expect_ran(const EnginePump& pump, const Schedule& schedule) {
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) EXPECT_EQ(text_of(pump.ran(rank)), text_of(schedule.ranks[rank]));
}

TEST(Engines, EveryScheduleRunsInOrderAtAnyTiming) {
  for (const ScheduleRequest& request : requests()) {
    const Schedule schedule = make_schedule(request);
    const Ledger ledger = make_ledger(schedule);
    for (Ring ring : {Ring::shared, Ring::two_ends}) {
      for (unsigned seed = 1; seed <= 4; ++seed) {
        SCOPED_TRACE(fmt::format("{} ring {} seed {}", name_of(request), static_cast<int>(ring), seed));
        EnginePump pump(schedule.placement, ledger.depths, {ring, static_cast<int>(1 + seed % 3), seed});
        ASSERT_TRUE(pump.run(schedule, ledger.stages, StepId{0}));
        expect_ran(pump, schedule);
        for (const Edge& edge : edges_of(schedule.placement))
          EXPECT_EQ(pump.passed(edge.id), edge.local() ? 0 : schedule.microbatches_of(edge.producer));
      }
    }
  }
}

TEST(Engines, StepsAndEvaluationsShareTheRings) {
  for (const ScheduleRequest& request : requests()) {
    const Schedule training = make_schedule(request);
    const Ledger ledger = make_ledger(training);
    const Schedule evaluation = forward_only(training.placement, request.microbatches + 6);
    for (Ring ring : {Ring::shared, Ring::two_ends}) {
      SCOPED_TRACE(fmt::format("{} ring {}", name_of(request), static_cast<int>(ring)));
      EnginePump pump(training.placement, ledger.depths, {ring, 2, 11});
      for (int step = 0; step < 4; ++step) {
        const Schedule& schedule = step == 2 ? evaluation : training;
        ASSERT_TRUE(pump.run(schedule, ledger.stages, StepId{step}));
        expect_ran(pump, schedule);
      }
    }
  }
}

TEST(Engines, VShapedPlacementHandsOverAtTheBend) {
  // Two ranks with stages 0 1 | 1 0; whole backwards are mixed with split ones.
  const Schedule schedule =
      table(Placement::v_shape(2), 2, {"0F0 0F1 3F0 3I0 3F1 3I1 3W0 0B0 3W1 0I1 0W1", "1F0 2F0 1F1 2F1 2B0 1I0 2I1 1B1 2W1 1W0"});
  ASSERT_NO_THROW(check_schedule(schedule));
  const Ledger ledger = make_ledger(schedule);
  for (unsigned seed = 1; seed <= 20; ++seed) {
    EnginePump pump(schedule.placement, ledger.depths, {Ring::shared, 3, seed});
    for (int step = 0; step < 3; ++step) {
      ASSERT_TRUE(pump.run(schedule, ledger.stages, StepId{step}));
      expect_ran(pump, schedule);
    }
  }
}

TEST(Engines, ForwardOnlyIsLiveWithOneSlotAnEdge) {
  for (const Placement& placement : {Placement::single(4), Placement::loop(3, 2), Placement::loop(4, 3), Placement::v_shape(4)}) {
    const Schedule schedule = forward_only(placement, 13);
    const std::vector<int> ones(edges_of(placement).size(), 1);
    const std::vector<StashSlots> slots(static_cast<std::size_t>(placement.stages()), StashSlots{1, 1, 0});
    for (Ring ring : {Ring::shared, Ring::two_ends}) {
      EnginePump pump(placement, ones, {ring, 2, 5});
      EXPECT_TRUE(pump.run(schedule, slots, StepId{0})) << placement.name();
      expect_ran(pump, schedule);
    }
  }
}

TEST(Engines, LedgerDepthsNeverMakeAProducerWait) {
  for (const ScheduleRequest& request : requests()) {
    const Schedule schedule = make_schedule(request);
    const Ledger ledger = make_ledger(schedule);
    for (int slow = -1; slow < request.ranks; ++slow) {
      EnginePump pump(schedule.placement, ledger.depths, {Ring::shared, 2, 3, slow, true});
      ASSERT_TRUE(pump.run(schedule, ledger.stages, StepId{0}));
      EXPECT_EQ(pump.credit_waits(), 0) << name_of(request) << " with slow rank " << slow;
    }
  }
}

TEST(Engines, OneSlotLessCanMakeAProducerWait) {
  // The depths are minimal: with one slot fewer on any edge there is a timing (a slow consumer) that blocks its producer.
  int shortened = 0;
  for (const ScheduleRequest& request : requests()) {
    const Schedule schedule = without_pairs(make_schedule(request));
    const Ledger ledger = make_ledger(schedule);
    for (const Edge& edge : edges_of(schedule.placement)) {
      if (ledger.depths[edge.id.index()] == 1 || edge.local()) continue;
      std::vector<int> depths = ledger.depths;
      --depths[edge.id.index()];
      EnginePump pump(schedule.placement, depths, {Ring::shared, 2, 3, edge.consumer_rank.value, true});
      const bool complete = pump.run(schedule, ledger.stages, StepId{0});
      EXPECT_EQ(complete, replay_untimed(schedule, depths).live) << name_of(request);
      EXPECT_GT(pump.credit_waits(), 0) << name_of(request) << " edge " << edge.id.value;
      ++shortened;
    }
  }
  EXPECT_GT(shortened, 100);
}

/// Segments as a mixture of experts has them: three exchanges forward, two or three backward, none in W.
std::vector<StageShape> mixture_shapes(int stages) {
  std::vector<StageShape> shapes(static_cast<std::size_t>(stages));
  for (std::size_t stage = 0; stage < shapes.size(); stage += 2) {  // every second stage, so that others have none
    shapes[stage].of(ActionKind::forward) = {{-1, 1}, {0, 1}, {1, 1}, {2, 0}};
    shapes[stage].of(ActionKind::input_gradient) = {{-1, 1}, {0, 1}, {1, 0}};
    shapes[stage].of(ActionKind::backward) = {{-1, 2}, {1, 1}, {0, 0}, {2, 0}};
  }
  return shapes;
}

TEST(Engines, SegmentsWaitForTheirExchangesInAnyOrder) {
  for (const ScheduleRequest& request : requests()) {
    const Schedule training = without_pairs(make_schedule(request));
    const Ledger ledger = make_ledger(training);
    const Schedule evaluation = forward_only(training.placement, request.microbatches + 2);
    const auto shapes = mixture_shapes(training.placement.stages());
    for (Ring ring : {Ring::shared, Ring::two_ends}) {
      for (unsigned seed = 1; seed <= 2; ++seed) {
        SCOPED_TRACE(fmt::format("{} ring {} seed {}", name_of(request), static_cast<int>(ring), seed));
        EnginePump pump(training.placement, ledger.depths, {ring, static_cast<int>(1 + seed % 3), seed});
        for (int step = 0; step < 3; ++step) {
          const Schedule& schedule = step == 1 ? evaluation : training;
          ASSERT_TRUE(pump.run(schedule, ledger.stages, StepId{step}, shapes));
          expect_ran(pump, schedule);
        }
      }
    }
  }
}

TEST(Engines, WovenPairsRunAtAnyTimingWithTheLedgersSlots) {
  int pairs = 0;
  for (const ScheduleRequest& request : requests()) {
    const Schedule plain = make_schedule(request);
    const auto shapes = mixture_shapes(plain.placement.stages());
    const Schedule woven = with_woven_neighbours(plain, shapes);
    const Ledger ledger = make_ledger(woven);
    for (Ring ring : {Ring::shared, Ring::two_ends}) {
      for (unsigned seed = 1; seed <= 3; ++seed) {
        SCOPED_TRACE(fmt::format("{} ring {} seed {}", name_of(request), static_cast<int>(ring), seed));
        EnginePump pump(woven.placement, ledger.depths, {ring, static_cast<int>(1 + seed % 3), seed});
        for (int step = 0; step < 2; ++step) ASSERT_TRUE(pump.run(woven, ledger.stages, StepId{step}, shapes));
      }
    }
    EnginePump pump(woven.placement, ledger.depths, {Ring::shared, 2, 3, request.ranks - 1, true});
    ASSERT_TRUE(pump.run(woven, ledger.stages, StepId{0}, shapes));
    EXPECT_EQ(pump.credit_waits(), 0) << name_of(request);
    for (const auto& list : woven.ranks) pairs += static_cast<int>(std::ranges::count(list, true, &Action::overlaps_next));
  }
  EXPECT_GT(pairs, 500);
}

TEST(Engines, StandStillExactlyWhereTheReplaySaysDead) {
  std::mt19937 random(17);
  int dead = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const Schedule schedules[] = {zb_h1(3, 5), looped_bfs(2, 2, 3), one_f_one_b(4, 5), looped_bfs(1, 2, 4)};  // the last with local edges
    const Schedule& schedule = schedules[trial % 4];
    const Ledger ledger = make_ledger(schedule);
    std::vector<int> depths = ledger.depths;
    for (int& depth : depths) depth = 1 + static_cast<int>(random() % static_cast<unsigned>(depth));
    EnginePump pump(schedule.placement, depths, {Ring::shared, 2, static_cast<unsigned>(random())});
    const bool complete = pump.run(schedule, ledger.stages, StepId{0});
    EXPECT_EQ(complete, replay_untimed(schedule, depths).live);
    dead += !complete;
  }
  EXPECT_GT(dead, 30);
  EXPECT_LT(dead, 270);
}

}  // namespace
}  // namespace millrace::runtime
