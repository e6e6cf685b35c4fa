#include "runtime/schedule/validate.hpp"

#include <algorithm>
#include <random>
#include <set>

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
      {{"0F0 0B0", "1F0 2F0 1B0"}, "rank 1, action 2F0: stage 2 is unknown, expected 0 to 1"},
      {{"0F0 0F1 0B0", "1F0 1B0"}, "action 0F1: microbatch 1 is unknown, expected 0 to 0"},
      {{"0F0 0B0"}, "1 lists, expected one for each of 2 ranks"},
  };
  for (const Case& bad : cases) {
    expect_contains(error_of(ExitCode::config, [&] { check_well_formed(table(Placement::single(2), 1, bad.rows)); }), bad.message);
  }
}

TEST(WellFormed, OneMicrobatchIsEnoughAndNoneIsNot) {
  EXPECT_NO_THROW(check_well_formed(table(Placement::single(2), 1, {"0F0 0B0", "1F0 1B0"})));
  Schedule none = table(Placement::single(2), 1, {"0F0 0B0", "1F0 1B0"});
  none.microbatches = 0;
  expect_contains(error_of(ExitCode::config, [&] { check_well_formed(none); }), "has 0 microbatches, expected 1 or more");
}

TEST(WellFormed, MicrobatchesRiseForEachKind) {
  const auto check = [](const char* row) { check_well_formed(table(Placement::single(1), 2, {row})); };
  expect_contains(error_of(ExitCode::config, [&] { check("0F1 0F0 0B0 0B1"); }), "action 0F0: comes after microbatch 1");
  expect_contains(error_of(ExitCode::config, [&] { check("0F0 0F1 0B1 0B0"); }), "action 0B0: comes after microbatch 1");
  expect_contains(error_of(ExitCode::config, [&] { check("0F0 0F1 0B1 0I0 0W0"); }), "action 0I0: comes after microbatch 1");
  expect_contains(error_of(ExitCode::config, [&] { check("0F0 0F1 0I0 0I1 0W1 0W0"); }), "action 0W0: comes after microbatch 1");
  EXPECT_NO_THROW(check("0F0 0F1 0I0 0B1 0W0"));  // B, and I with W, may be mixed between microbatches
  EXPECT_NO_THROW(check("0F0 0F1"));              // evaluation
}

TEST(Replay, NamesWhoWaitsForWhomAndTheCycle) {
  const Schedule dead = table(Placement::single(3), 2, {"0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1", "2F0 2B0 2F1 2B1"});
  const Liveness liveness = replay_untimed(dead);
  EXPECT_FALSE(liveness.live);
  expect_contains(
      liveness.report,
      "rank 0 is stuck at 0B0 (action 1 of 4): no gradient of microbatch 0 from stage 1, which 1B0 on rank 1 produces; rank 1 is "
      "stuck at 1F1");
  expect_contains(liveness.report,
                  "rank 1 is stuck at 1F1 (action 1 of 4): no activation of microbatch 1 from stage 0, which 0F1 on rank 0 produces");
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
      "rank 0 is stuck at 0F2 (action 2 of 6): no free slot of 2 on the activation edge from stage 0 to 1, which 1B0 on rank 1 frees");
}

TEST(Replay, LedgerDepthsAreAlwaysLive) {
  for (const ScheduleRequest& request : every_request({1, 2, 3, 4}, 3)) {
    const Schedule schedule = make_schedule(request);
    EXPECT_TRUE(replay_untimed(schedule, make_ledger(schedule).depths).live) << name_of(request);
  }
  for (int ranks : {2, 4, 8}) {
    for (const ScheduleRequest& request : one_of_each(ranks, 2 * ranks)) {
      const Schedule schedule = make_schedule(request);
      EXPECT_TRUE(replay_untimed(schedule, make_ledger(schedule).depths).live) << name_of(request);
    }
  }
}

// An alternative decision procedure: entries are removed one at a time, at random, whenever everything that they need was removed
// before.
bool can_be_peeled(const Schedule& schedule, std::mt19937& random) {
  std::set<std::string> made;  // "F of stage 1, microbatch 0"; "I …" for both I and B
  std::vector<std::size_t> done(schedule.ranks.size(), 0);
  const auto text = [](StageId stage, bool forward, MicrobatchId m) { return fmt::format("{}{}{}", forward ? 'F' : 'I', stage, m); };
  const auto ready = [&](const Action& action) {
    if (action.kind == ActionKind::weight_gradient) return true;
    const bool forward = action.kind == ActionKind::forward;
    const auto from = forward ? schedule.placement.previous(action.stage) : schedule.placement.next(action.stage);
    return !from || made.count(text(*from, forward, action.microbatch)) > 0;
  };
  std::vector<std::size_t> open(schedule.ranks.size());
  for (std::size_t rank = 0; rank < open.size(); ++rank) open[rank] = rank;
  while (!open.empty()) {
    std::shuffle(open.begin(), open.end(), random);
    const auto found = std::find_if(open.begin(), open.end(), [&](std::size_t rank) {
      const auto& list = schedule.ranks[rank];
      if (done[rank] == list.size()) return true;
      return ready(list[done[rank]]) && (!list[done[rank]].overlaps_next || ready(list[done[rank] + 1]));
    });
    if (found == open.end()) return false;
    const auto& list = schedule.ranks[*found];
    if (done[*found] == list.size()) {
      open.erase(found);
      continue;
    }
    for (std::size_t size = list[done[*found]].overlaps_next ? 2 : 1; size > 0; --size) {
      const Action& action = list[done[*found]++];
      if (action.kind != ActionKind::weight_gradient)
        made.insert(text(action.stage, action.kind == ActionKind::forward, action.microbatch));
    }
  }
  return true;
}

TEST(Replay, RandomTablesAreDeadExactlyWhenNoOrderExists) {
  std::mt19937 random(7);
  int dead = 0, live = 0;
  for (int trial = 0; trial < 600; ++trial) {
    const auto requests = one_of_each(random() % 2 ? 2 : 4, 8);
    Schedule schedule = make_schedule(requests[random() % requests.size()]);
    for (int swap = 0; swap < 6; ++swap) {
      auto& list = schedule.ranks[random() % schedule.ranks.size()];
      const std::size_t at = random() % (list.size() - 1);
      std::swap(list[at], list[at + 1]);
      try {
        check_well_formed(schedule);
      } catch (const Error&) {
        std::swap(list[at], list[at + 1]);
      }
    }
    const Liveness liveness = replay_untimed(schedule);
    ASSERT_EQ(liveness.live, can_be_peeled(schedule, random)) << schedule.name << "\n" << liveness.report;
    EXPECT_EQ(liveness.cycle.empty(), liveness.live);
    EXPECT_EQ(liveness.report.empty(), liveness.live);
    ++(liveness.live ? live : dead);
  }
  EXPECT_GT(dead, 50);
  EXPECT_GT(live, 50);
}

TEST(WellFormed, PairsAreOfTwoMicrobatches) {
  const auto error = [](std::size_t at, const char* row) {
    Schedule schedule = table(Placement::single(1), 2, {row});
    schedule.ranks[0][at].overlaps_next = true;
    return error_of(ExitCode::config, [&] { check_well_formed(schedule); });
  };
  expect_contains(error(0, "0F0 0B0 0F1 0B1"), "rank 0, pair (0F0;0B0): both halves are of microbatch 0, expected two different ones");
  expect_contains(error(3, "0F0 0F1 0B0 0B1"), "rank 0, action 0B1: begins an overlapped pair, and no action follows");
  Schedule chained = table(Placement::single(1), 2, {"0F0 0F1 0B0 0B1"});
  chained.ranks[0][1].overlaps_next = true;
  EXPECT_NO_THROW(check_schedule(chained));
  chained.ranks[0][2].overlaps_next = true;
  expect_contains(error_of(ExitCode::config, [&] { check_well_formed(chained); }),
                  "its second half begins another pair; pairs do not chain");
}

TEST(WellFormed, AReplicaTakesItsOwnMicrobatches) {
  const Schedule good = table(Placement::mirror(2), 2, {"0F0 3F1 0B0 3B1", "2F1 1F0 2B1 1B0"});
  EXPECT_NO_THROW(check_well_formed(good));
  const Schedule crossed = table(Placement::mirror(2), 2, {"0F0 3F0 0B0 3B0", "2F0 1F0 2B0 1B0"});
  expect_contains(error_of(ExitCode::config, [&] { check_well_formed(crossed); }),
                  "rank 0, action 3F0: replica 1 of the model, to which stage 3 belongs, takes the microbatches that are 1 modulo 2");
}

TEST(Replay, APairWhoseHalvesNeedEachOtherIsDead) {
  Schedule schedule = table(Placement::single(2), 2, {"0F0 0F1 0B0 0B1", "1F0 1F1 1B0 1B1"});
  EXPECT_TRUE(replay_untimed(schedule).live);
  schedule.ranks[0][1].overlaps_next = true;  // 1B0 comes after 1F1, which needs 0F1
  const Liveness liveness = replay_untimed(schedule);
  EXPECT_FALSE(liveness.live);
  expect_contains(
      liveness.report,
      "rank 0 is stuck at (0F1;0B0) (action 1 of 4): no gradient of microbatch 0 from stage 1, which 1B0 on rank 1 produces; rank 1 "
      "is stuck at 1F1");
}

}  // namespace
}  // namespace millrace::runtime
