#include "runtime/schedule/validate.hpp"

#include <random>

#include "runtime/schedule/ledger.hpp"
#include "tests/runtime/schedule/schedule_support.hpp"

namespace millrace::runtime {
namespace {

TEST(WellFormed, EachRuleNamesTheAction) {
  struct Case {
    std::vector<std::string> rows;
    const char* message;
  };
  const Case cases[] = {
      {{"0F0 0F0 0B0", "1F0 1B0"}, "rank 0, action 0F0: a second forward"},
      {{"0B0 0F0", "1F0 1B0"}, "rank 0, action 0B0: comes before its forward"},
      {{"0F0 0W0 0I0", "1F0 1B0"}, "rank 0, action 0W0: comes before its I"},
      {{"0F0 0I0 0B0", "1F0 1B0"}, "rank 0, action 0B0: a second I or B"},
      {{"0F0 0B0 0W0", "1F0 1B0"}, "rank 0, action 0W0: a W beside a B"},
      {{"0F0 0I0 0W0 0W0", "1F0 1B0"}, "rank 0, action 0W0: a second W"},
      {{"0F0 0I0", "1F0 1B0"}, "stage 0 on rank 0 has no W for microbatch 0"},
      {{"0F0 0B0", "1F0"}, "stage 1 on rank 1 has no B (or I and W) for microbatch 0"},
      {{"0F0 0B0", ""}, "stage 1 on rank 1 has no F for microbatch 0"},
      {{"0F0 1F0 0B0", "1B0"}, "rank 0, action 1F0: stage 1 belongs to rank 1"},
      {{"0F0 0B0", "1F0 2F0 1B0"}, "rank 1, action 2F0: stage 2 is unknown, wanted 0 to 1"},
      {{"0F0 0F1 0B0", "1F0 1B0"}, "action 0F1: microbatch 1 is unknown, wanted 0 to 0"},
      {{"0F0 0B0"}, "1 lists, wanted one for each of 2 ranks"},
  };
  for (const Case& bad : cases) {
    expect_contains(error_of(ExitCode::config, [&] { check_well_formed(table(Placement::single(2), 1, bad.rows)); }), bad.message);
  }
}

TEST(WellFormed, MicrobatchesRiseForEachKind) {
  const auto check = [](const char* row) { check_well_formed(table(Placement::single(1), 2, {row})); };
  expect_contains(error_of(ExitCode::config, [&] { check("0F1 0F0 0B0 0B1"); }), "action 0F0: comes after microbatch 1");
  expect_contains(error_of(ExitCode::config, [&] { check("0F0 0F1 0B1 0B0"); }), "action 0B0: comes after microbatch 1");
  expect_contains(error_of(ExitCode::config, [&] { check("0F0 0F1 0B1 0I0 0W0"); }), "action 0I0: comes after microbatch 1");
  expect_contains(error_of(ExitCode::config, [&] { check("0F0 0F1 0I0 0I1 0W1 0W0"); }), "action 0W0: comes after microbatch 1");
  EXPECT_NO_THROW(check("0F0 0F1 0I0 0B1 0W0"));  // B and I with W may be mixed between microbatches
  EXPECT_NO_THROW(check("0F0 0F1"));              // evaluation
}

TEST(Replay, NamesWhoWaitsForWhomAndTheCycle) {
  const Schedule dead = table(Placement::single(3), 2, {"0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1", "2F0 2B0 2F1 2B1"});
  const Liveness liveness = replay_untimed(dead);
  EXPECT_FALSE(liveness.live);
  expect_contains(liveness.report,
                  "rank 0 is stuck at 0B0 (action 1 of 4): no gradient of microbatch 0 from stage 1, which 1B0 on rank 1 makes; rank 1 is "
                  "stuck at 1F1");
  expect_contains(liveness.report,
                  "rank 1 is stuck at 1F1 (action 1 of 4): no activation of microbatch 1 from stage 0, which 0F1 on rank 0 makes");
  expect_contains(liveness.report, "cycle: rank 0 waits for rank 1, which waits for rank 0");
  EXPECT_EQ(liveness.cycle, (std::vector<RankId>{RankId{0}, RankId{1}}));
  expect_contains(error_of(ExitCode::config, [&] { check_schedule(dead); }), "ranks wait for each other");
}

TEST(Replay, TooShallowRingsAreDeadAndNamed) {
  // The ring slot is the saved input: GPipe needs one for every microbatch.
  const Schedule schedule = gpipe(2, 3);
  EXPECT_TRUE(replay_untimed(schedule, std::vector<int>{3, 1}).live);
  const Liveness liveness = replay_untimed(schedule, std::vector<int>{2, 3});
  EXPECT_FALSE(liveness.live);
  expect_contains(
      liveness.report,
      "rank 0 is stuck at 0F2 (action 2 of 6): no free slot of 2 on the activation edge from stage 0 to 1, which 1B0 on rank 1 gives back");
}

TEST(Replay, LedgerDepthsAreAlwaysLive) {
  for (const ScheduleRequest& request : every_request({1, 2, 3, 4}, 3)) {
    const Schedule schedule = make_schedule(request);
    EXPECT_TRUE(replay_untimed(schedule, make_ledger(schedule).depths).live) << name_of(request);
  }
}

TEST(Replay, RandomSwapsAreFoundDeadExactlyWhenNoOrderExists) {
  // Against another way to decide: actions are peeled off in topological order of the whole graph, one at a time, at random.
  std::mt19937 random(7);
  int dead = 0;
  for (int trial = 0; trial < 400; ++trial) {
    Schedule schedule = one_f_one_b(3, 4);
    for (int swap = 0; swap < 4; ++swap) {
      auto& list = schedule.ranks[random() % 3];
      const std::size_t at = random() % (list.size() - 1);
      std::swap(list[at], list[at + 1]);
      try {
        check_well_formed(schedule);
      } catch (const Error&) {
        std::swap(list[at], list[at + 1]);
      }
    }
    std::vector<std::size_t> done(3, 0);
    const auto has = [&](std::size_t rank, const Action& wanted) {
      const auto& list = schedule.ranks[rank];
      return std::find(list.begin(), list.begin() + static_cast<long>(done[rank]), wanted) != list.begin() + static_cast<long>(done[rank]);
    };
    for (int tries = 0; tries < 2000; ++tries) {
      const std::size_t rank = random() % 3;
      if (done[rank] == schedule.ranks[rank].size()) continue;
      Action needed = schedule.ranks[rank][done[rank]];
      const int other = needed.kind == ActionKind::forward ? needed.stage.value - 1 : needed.stage.value + 1;
      needed.stage = StageId{other};
      if (other < 0 || other > 2 || has(static_cast<std::size_t>(other), needed)) ++done[rank];
    }
    bool complete = true;
    for (std::size_t rank = 0; rank < 3; ++rank) complete = complete && done[rank] == schedule.ranks[rank].size();
    EXPECT_EQ(replay_untimed(schedule).live, complete);
    dead += !complete;
  }
  EXPECT_GT(dead, 10);
}

}  // namespace
}  // namespace millrace::runtime
