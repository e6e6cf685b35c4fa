#include "runtime/schedule/schedule.hpp"

#include <map>

#include "runtime/schedule/edge.hpp"
#include "runtime/schedule/generators/split_backward.hpp"
#include "runtime/schedule/simulator/replay.hpp"
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
                  "2 values, expected one for each of 3 ranks");
  expect_contains(error_of(ExitCode::config, [] { (void)one_f_one_b(1, 4, std::vector<int>{-1}); }), "expected 0 or more");
}

TEST(Schedules, ARisingWarmupWouldIndeedHang) {
  // A schedule that check_warmup refuses, written by hand: rank 1 warms up with one forward, rank 0 with none.
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
                    "has one chunk per rank, but pipeline.chunks = 2; use pipeline.chunks = 1, or looped-bfs, which takes several");
  }
  expect_contains(error_of(ExitCode::config,
                           [] {
                             (void)make_schedule({"gpipe", 2, 1, 4, std::vector<int>{1, 0}});
                           }),
                  "gpipe has no warm-up");
  expect_contains(error_of(ExitCode::config,
                           [] {
                             (void)make_schedule({"gpipe", 0, 1, 4, {}});
                           }),
                  "pipeline.ranks = 0, expected 1 or more");
  expect_contains(error_of(ExitCode::config,
                           [] {
                             (void)make_schedule({"gpipe", 1, 1, 0, {}});
                           }),
                  "train.microbatches = 0, expected 1 or more");
  expect_contains(error_of(ExitCode::config,
                           [] {
                             (void)make_schedule({"looped-bfs", 1, 0, 1, {}});
                           }),
                  "pipeline.chunks = 0, expected 1 or more");
}

TEST(Schedules, EveryOneIsWellFormedAndLive) {
  for (const ScheduleRequest& request : every_request({1, 2, 3, 4, 5, 8}, 4)) {
    SCOPED_TRACE(name_of(request));
    const Schedule schedule = make_schedule(request);
    ASSERT_NO_THROW(check_schedule(schedule));
    EXPECT_EQ(schedule.placement.model_stages(), request.ranks * request.chunks);
    EXPECT_EQ(schedule.placement.name(), placement_of(request).name());
    EXPECT_FALSE(schedule.forward_only());
  }
}

// -- every name, every size ----------------------------------------------------------------------------------------------

// The request changed as the message advises: "nearest legal: train.microbatches = 8" and the like, the first if there are
// several.
std::optional<ScheduleRequest> advised(ScheduleRequest request, const std::string& message) {
  bool changed = false;
  const auto take = [&](const char* key, int& value) {
    const std::string text = fmt::format("{} = ", key);
    const std::size_t at = message.find(text, std::min(message.find("nearest legal"), message.find("; use ")));
    if (at == std::string::npos) return;
    value = std::stoi(message.substr(at + text.size()));
    changed = true;
  };
  take("pipeline.ranks", request.ranks);
  take("pipeline.chunks", request.chunks);
  if (message.find("nearest legal: pipeline.group") == std::string::npos) take("train.microbatches", request.microbatches);
  take("pipeline.group", request.group);
  return changed ? std::optional(request) : std::nullopt;
}

// The message; empty if the request can be met.
std::string refusal_of(const ScheduleRequest& request) {
  try {
    (void)make_schedule(request);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(ExitCode::config)) << error.what();
    return error.what();
  }
}

TEST(Schedules, EverySizeRunsOrAdvisesOneThatDoes) {
  std::map<std::string, int> made;
  for (int ranks : {1, 2, 3, 4, 5, 8}) {
    for (int microbatches = 1; microbatches <= 4 * ranks; ++microbatches) {
      for (const std::string& name : schedule_names()) {
        for (int chunks : {1, 2, 3}) {
          for (int group : {0, ranks, ranks + 1}) {
            ScheduleRequest request{name, ranks, chunks, microbatches, {}, group};
            SCOPED_TRACE(fmt::format("{} N={}", name_of(request), group));
            std::string refused = refusal_of(request);
            if (refused.empty()) {
              ASSERT_NO_THROW(check_schedule(make_schedule(request)));
              ++made[name];
              continue;
            }
            // Following the advice may lead to the next problem, for example first the number of ranks, then of microbatches.
            for (int step = 0; !refused.empty(); ++step) {
              ASSERT_LT(step, 4) << refused;
              const auto next = advised(request, refused);
              ASSERT_TRUE(next) << "no advice in: " << refused;
              request = *next;
              refused = refusal_of(request);
            }
          }
        }
      }
    }
  }
  for (const std::string& name : schedule_names()) EXPECT_GT(made[name], 0) << name;
  // These schedules accept any M, but only one of the three numbers of chunks and one of the three groups.
  for (const char* name : {"gpipe", "1f1b", "zb-h1", "zb-h2", "zb-v", "v-half", "v-min", "auto"}) EXPECT_EQ(made[name], 4 * 23) << name;
}

TEST(Schedules, GroupsThatWouldStarveAChunk) {
  const auto refusal = [](const ScheduleRequest& request) { return error_of(ExitCode::config, [&] { (void)make_schedule(request); }); };
  expect_contains(
      refusal({"interleaved", 4, 2, 6, {}}),
      "train.microbatches = 6 with pipeline.group = 4, expected groups of 4 (the ranks) to train.microbatches and a last group that "
      "is full or not smaller than 4; nearest legal: pipeline.group = 6, or train.microbatches = 8 with pipeline.group = 4");
  expect_contains(refusal({"interleaved", 4, 2, 3, {}}), "nearest legal: train.microbatches = 4 with pipeline.group = 4");
  expect_contains(refusal({"interleaved", 4, 2, 8, {}, 3}), "nearest legal: pipeline.group = 4, or train.microbatches = 8 with");
  expect_contains(refusal({"interleaved-zb", 4, 2, 9, {}}),
                  "train.microbatches = 9 do not divide into 2 equal rounds; nearest legal: train.microbatches = 10");
  expect_contains(refusal({"zb-v", 4, 2, 8, {}, 4}), "zb-v has no groups, but pipeline.group = 4; use pipeline.group = 0");
  expect_contains(refusal({"interleaved", 4, 2, 8, {}, -1}), "pipeline.group = -1, expected 0 or more");
  EXPECT_NO_THROW((void)make_schedule({"interleaved", 4, 2, 6, {}, 6}));
  EXPECT_NO_THROW((void)make_schedule({"interleaved", 4, 2, 9, {}, 5}));
  EXPECT_NO_THROW((void)make_schedule({"interleaved", 4, 1, 3, {}}));
}

TEST(Schedules, WhatTwoEndsAndRoundsNeed) {
  const auto refusal = [](const ScheduleRequest& request) { return error_of(ExitCode::config, [&] { (void)make_schedule(request); }); };
  expect_contains(refusal({"circular", 4, 2, 6, {}}), "expected a multiple of 4; nearest legal: train.microbatches = 8");
  expect_contains(refusal({"dualpipe", 3, 1, 8, {}}), "dualpipe on 3 ranks, expected an even number");
  expect_contains(refusal({"dualpipe", 3, 1, 8, {}}), "nearest legal: pipeline.ranks = 4, or dualpipe-v");
  expect_contains(refusal({"dualpipe", 4, 1, 9, {}}), "nearest legal: train.microbatches = 10");
  expect_contains(refusal({"dualpipe", 4, 1, 6, {}}), "an even number of 8 or more; nearest legal: train.microbatches = 8");
  expect_contains(refusal({"dualpipe-v", 4, 2, 7, {}}), "expected 8 or more; nearest legal: train.microbatches = 8");
  expect_contains(refusal({"zb-v", 4, 1, 8, {}}), "zb-v has two chunks per rank, but pipeline.chunks = 1; use pipeline.chunks = 2");
}

TEST(Schedules, FewMicrobatchesAreTheLongListsCutShort) {
  // ZB-V is generated for 2P−1 microbatches and cut; the remaining actions keep their order.
  Schedule cut = zb_v(4, 7);
  for (auto& list : cut.ranks) std::erase_if(list, [](const Action& action) { return action.microbatch.value >= 3; });
  EXPECT_EQ(zb_v(4, 3).ranks, cut.ranks);
}

TEST(Schedules, OneKindOfBackwardWhereBothAreMixed) {
  EXPECT_EQ(with_one_kind_of_backward(gpipe(2, 4)).ranks, gpipe(2, 4).ranks);
  EXPECT_EQ(with_one_kind_of_backward(zb_v(2, 4)).ranks, zb_v(2, 4).ranks);
  const Schedule split = with_one_kind_of_backward(dualpipe_v(4, 8));
  ASSERT_NO_THROW(check_schedule(split));
  EXPECT_EQ(text_of(with_one_kind_of_backward(dualpipe_v(1, 2)).ranks[0]), "0F0 1F0 0F1 1I0 1W0 1F1 0I0 0W0 1I1 1W1 0I1 0W1");
  EXPECT_TRUE(with_one_kind_of_backward(dualpipe_v(1, 2)).ranks[0][5].overlaps_next);
  const Schedule overtaking = table(Placement::single(1), 2, {"0F0 0F1 0I0 0B1 0W0"});
  expect_contains(error_of(ExitCode::config, [&] { (void)with_one_kind_of_backward(overtaking); }), "action 0W0: comes after microbatch 1");
}

TEST(Schedules, ReplicasShareTheMicrobatches) {
  const Schedule schedule = dualpipe(4, 10);
  EXPECT_TRUE(schedule.has(StageId{3}, MicrobatchId{4}));
  EXPECT_FALSE(schedule.has(StageId{3}, MicrobatchId{5}));
  EXPECT_FALSE(schedule.has(StageId{4}, MicrobatchId{4}));
  EXPECT_TRUE(schedule.has(StageId{4}, MicrobatchId{9}));
  EXPECT_FALSE(schedule.has(StageId{4}, MicrobatchId{11}));
  EXPECT_EQ(schedule.microbatch_of(StageId{7}, 0), MicrobatchId{1});
  EXPECT_EQ(schedule.microbatch_of(StageId{7}, 3), MicrobatchId{7});
  EXPECT_EQ(schedule.ordinal_of(MicrobatchId{7}), 3);
  EXPECT_EQ(schedule.microbatches_of(StageId{7}), 5);
  EXPECT_TRUE(zb_v(4, 10).has(StageId{7}, MicrobatchId{9}));
  for (const auto& list : schedule.ranks)
    for (const Action& action : list) EXPECT_TRUE(schedule.has(action.stage, action.microbatch)) << to_string(action);
}

TEST(ForwardOnly, LiveWithOneSlotAnEdgeOnEveryPlacement) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    std::vector<Placement> placements{Placement::single(ranks), Placement::loop(ranks, 2), Placement::loop(ranks, 3),
                                      Placement::v_shape(ranks), Placement::mirror(ranks)};
    if (ranks == 2) placements.push_back(Placement::by_hand(2, {RankId{0}, RankId{1}, RankId{1}, RankId{0}, RankId{0}, RankId{1}}));
    for (const Placement& placement : placements) {
      for (int m : {1, 2, 3, 7, 40}) {
        SCOPED_TRACE(fmt::format("{} P={} S={} M={}", placement.name(), ranks, placement.stages(), m));
        const Schedule schedule = forward_only(placement, m);
        EXPECT_TRUE(schedule.forward_only());
        ASSERT_NO_THROW(check_schedule(schedule, std::vector<int>(edges_of(placement).size(), 1)));
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
  // The lower bound is M·V of work after P−1 units of filling, in units of one chunk.
  for (const auto& [placement, bound] :
       {std::pair{Placement::single(4), 16 + 3}, std::pair{Placement::loop(4, 2), 32 + 3}, std::pair{Placement::v_shape(4), 32 + 7}}) {
    const Schedule schedule = forward_only(placement, 16);
    EXPECT_LE(replay(schedule, std::vector<StageCost>(static_cast<std::size_t>(placement.stages())), 0).makespan, bound)
        << placement.name();
  }
}

}  // namespace
}  // namespace millrace::runtime
