#include "runtime/schedule/schedule.hpp"

#include "runtime/schedule/replay.hpp"
#include "runtime/schedule/validate.hpp"
#include "tests/runtime/schedule/schedule_support.hpp"

namespace millrace::runtime {
namespace {

TEST(Schedules, ListsAsInTheirPapers) {
  EXPECT_EQ(text_of(gpipe(2, 2).ranks[1]), "1F0 1F1 1B0 1B1");
  EXPECT_EQ(text_of(one_f_one_b(2, 3).ranks[0]), "0F0 0F1 0B0 0F2 0B1 0B2");
  EXPECT_EQ(text_of(one_f_one_b(2, 3).ranks[1]), "1F0 1B0 1F1 1B1 1F2 1B2");
  EXPECT_EQ(text_of(looped_bfs(2, 2, 2).ranks[1]), "1F0 1F1 3F0 3F1 3B0 3B1 1B0 1B1");
  EXPECT_EQ(text_of(zb_h1(2, 3).ranks[0]), "0F0 0F1 0I0 0W0 0F2 0I1 0W1 0I2 0W2");
  EXPECT_EQ(text_of(zb_h1(2, 3).ranks[1]), "1F0 1I0 1F1 1I1 1W0 1F2 1I2 1W1 1W2");
}

TEST(Schedules, WarmupIsAParameter) {
  EXPECT_EQ(one_f_one_b_warmup(4, 3), (std::vector<int>{3, 2, 1, 0}));
  EXPECT_EQ(one_f_one_b_warmup(4, 6), (std::vector<int>{6, 4, 2, 0}));
  EXPECT_EQ(one_f_one_b_warmup(4, 1), (std::vector<int>{1, 1, 1, 0}));
  EXPECT_EQ(one_f_one_b_warmup(1, 2), (std::vector<int>{2}));
  const auto longer = make_schedule({"1f1b", 2, 1, 4, std::vector<int>{2, 0}});
  EXPECT_EQ(text_of(longer.ranks[0]), "0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3");
  expect_contains(error_of(ExitCode::config,
                           [] {
                             (void)one_f_one_b(3, 4, std::vector<int>{1, 2, 0});
                           }),
                  "warm-up of rank 1 is 2, above 1 of rank 0: they would wait for each other; nearest legal value 1");
  expect_contains(error_of(ExitCode::config,
                           [] {
                             (void)one_f_one_b(3, 4, std::vector<int>{1, 0});
                           }),
                  "2 values, wanted one for each of 3 ranks");
  expect_contains(error_of(ExitCode::config, [] { (void)one_f_one_b(1, 4, std::vector<int>{-1}); }), "wanted 0 or more");
}

TEST(Schedules, ARisingWarmupWouldIndeedHang) {
  // What check_warmup refuses, written by hand: rank 1 warms up with one forward, rank 0 with none.
  const Schedule risen = table(Placement::single(2), 2, {"0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1"});
  EXPECT_FALSE(replay_untimed(risen).live);
}

TEST(Schedules, UnknownNameTellsTheNearest) {
  expect_contains(error_of(ExitCode::config,
                           [] {
                             (void)make_schedule({"1f1", 2, 1, 4, {}});
                           }),
                  "\"1f1\" is unknown, did you mean \"1f1b\"?");
  expect_contains(error_of(ExitCode::config, [] { (void)make_schedule({"looped_bfs", 2, 1, 4, {}}); }), "did you mean \"looped-bfs\"?");
  expect_contains(error_of(ExitCode::config, [] { (void)make_schedule({"zbh1", 2, 1, 4, {}}); }), "did you mean \"zb-h1\"?");
}

TEST(Schedules, IllegalCombinationsTellTheNearestLegalOne) {
  for (const char* name : {"gpipe", "1f1b", "zb-h1"}) {
    expect_contains(error_of(ExitCode::config,
                             [&] {
                               (void)make_schedule({name, 2, 2, 4, {}});
                             }),
                    "runs one chunk a rank, pipeline.chunks = 2 found; take pipeline.chunks = 1, or looped-bfs, which runs several");
  }
  expect_contains(error_of(ExitCode::config,
                           [] {
                             (void)make_schedule({"gpipe", 2, 1, 4, std::vector<int>{1, 0}});
                           }),
                  "gpipe has no warm-up");
  expect_contains(error_of(ExitCode::config, [] { (void)make_schedule({"gpipe", 0, 1, 4, {}}); }), "pipeline.ranks = 0, wanted 1 or more");
  expect_contains(error_of(ExitCode::config,
                           [] {
                             (void)make_schedule({"gpipe", 1, 1, 0, {}});
                           }),
                  "train.microbatches = 0, wanted 1 or more");
  expect_contains(error_of(ExitCode::config,
                           [] {
                             (void)make_schedule({"looped-bfs", 1, 0, 1, {}});
                           }),
                  "pipeline.chunks = 0, wanted 1 or more");
}

TEST(Schedules, EveryOneIsWellFormedAndLive) {
  for (const ScheduleRequest& request : every_request({1, 2, 3, 4, 5, 8}, 4)) {
    SCOPED_TRACE(name_of(request));
    const Schedule schedule = make_schedule(request);
    ASSERT_NO_THROW(check_schedule(schedule));
    EXPECT_EQ(schedule.placement.stages(), request.ranks * request.chunks);
    EXPECT_EQ(schedule.placement.name(), placement_of(request).name());
    EXPECT_FALSE(schedule.forward_only());
  }
}

TEST(ForwardOnly, LiveWithOneSlotAnEdgeOnEveryPlacement) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    std::vector<Placement> placements{Placement::single(ranks), Placement::loop(ranks, 2), Placement::loop(ranks, 3),
                                      Placement::v_shape(ranks)};
    if (ranks == 2) placements.push_back(Placement::by_hand(2, {RankId{0}, RankId{1}, RankId{1}, RankId{0}, RankId{0}, RankId{1}}));
    for (const Placement& placement : placements) {
      for (int m : {1, 2, 3, 7, 40}) {
        SCOPED_TRACE(fmt::format("{} P={} S={} M={}", placement.name(), ranks, placement.stages(), m));
        const Schedule schedule = forward_only(placement, m);
        EXPECT_TRUE(schedule.forward_only());
        ASSERT_NO_THROW(check_schedule(schedule, std::vector<int>(static_cast<std::size_t>(2 * (placement.stages() - 1)), 1)));
      }
    }
  }
}

TEST(ForwardOnly, BreadthFirstListsWouldFillTheWrapEdge) {
  Schedule breadth = looped_bfs(2, 2, 8);
  for (auto& list : breadth.ranks) std::erase_if(list, [](const Action& action) { return action.kind != ActionKind::forward; });
  EXPECT_TRUE(replay_untimed(breadth).live);
  EXPECT_FALSE(replay_untimed(breadth, std::vector<int>(6, 2)).live);
}

TEST(ForwardOnly, KeepsTheRanksBusy) {
  // The least possible is M·V of work after P−1 units of filling, in units of one chunk.
  for (const auto& [placement, bound] :
       {std::pair{Placement::single(4), 16 + 3}, std::pair{Placement::loop(4, 2), 32 + 3}, std::pair{Placement::v_shape(4), 32 + 7}}) {
    const Schedule schedule = forward_only(placement, 16);
    EXPECT_LE(replay(schedule, std::vector<StageCost>(static_cast<std::size_t>(placement.stages())), 0).makespan, bound)
        << placement.name();
  }
}

}  // namespace
}  // namespace millrace::runtime
