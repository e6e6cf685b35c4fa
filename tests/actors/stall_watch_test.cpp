#include "actors/rank/stall_watch.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "runtime/engine/wait.hpp"
#include "runtime/schedule/schedule.hpp"

namespace millrace::actors {
namespace {

using namespace std::chrono_literals;
using cluster::Progress;
using runtime::WaitReason;

/// Four ranks of 1F1B with eight microbatches, one process each, and a clock that the test advances.
class Watch : public ::testing::Test {
 protected:
  Watch() {
    runtime::ScheduleRequest request;
    request.name = "1f1b";
    request.ranks = 4;
    request.microbatches = 8;
    schedule_ = runtime::make_schedule(request);
    watch_.emplace(schedule_, cluster::Topology(4, 4, 0), 1500ms);
  }

  static Progress doing(int rank, std::string_view what, int stage, int microbatch, int finished, int peer = -1, int peer_stage = -1) {
    Progress progress;
    progress.rank = rank;
    progress.stage = stage;
    progress.microbatch = microbatch;
    progress.step = 5;
    progress.finished = finished;
    progress.peer = peer;
    progress.peer_stage = peer_stage;
    progress.set_action(what);
    return progress;
  }
  static Progress doing(int rank, WaitReason reason, int stage, int microbatch, int finished, int peer = -1, int peer_stage = -1) {
    auto progress = doing(rank, fmt::format("waits for {}", to_string(reason)), stage, microbatch, finished, peer, peer_stage);
    progress.wait = static_cast<std::int32_t>(reason);
    return progress;
  }
  /// All ranks send the same report for this long, with a heartbeat every 100 ms; the first message is on the way.
  std::optional<std::string> pass(std::chrono::milliseconds span, const std::vector<Progress>& all) {
    std::optional<std::string> first;
    for (const auto end = now_ + span; now_ < end; now_ += 100ms) {
      for (const auto& progress : all) watch_->heard(std::span(&progress, 1), now_);
      auto text = watch_->look(now_);
      if (text && !first) first = std::move(text);
    }
    return first;
  }
  static void expect_part(const std::optional<std::string>& text, const std::string& part) {
    ASSERT_TRUE(text);
    EXPECT_NE(text->find(part), std::string::npos) << "expected \"" << part << "\" in: " << *text;
  }

  runtime::Schedule schedule_;
  std::optional<StallWatch> watch_;
  StallWatch::Clock::time_point now_ = StallWatch::Clock::time_point(1h);
};

TEST_F(Watch, NamesTheActionThatAllWaitFor) {
  // Rank 1 computes; ranks 2 and 3 wait for its output, rank 0 for a gradient that depends on them.
  const auto text = pass(4s, {doing(0, WaitReason::gradient, 0, 0, 4, 1, 1), doing(1, "forward", 1, 3, 3),
                              doing(2, WaitReason::activation, 2, 3, 3, 1, 1), doing(3, WaitReason::activation, 3, 3, 6, 2, 2)});
  expect_part(text, "no progress for 1.5 s: rank ");
  expect_part(text, "rank 3 waits for the activation of microbatch 3 from stage 2 on rank 2 (1.5 s)");
  expect_part(text, "The cause: rank 1: forward, stage 1, microbatch 3, step 5, for 1.5 s");
}

TEST_F(Watch, TellsOnceAndAgainAfterSomethingMoved) {
  const std::vector<Progress> halted{doing(0, WaitReason::gradient, 0, 0, 4, 1, 1), doing(1, "forward", 1, 3, 3)};
  EXPECT_TRUE(pass(3s, halted));
  EXPECT_FALSE(pass(10s, halted));
  auto further = halted;
  further[1] = doing(1, "backward", 1, 0, 4);
  EXPECT_TRUE(pass(25s, further));
}

// If any field that a rank reports has changed, the rank has moved, however long it has been reporting a wait.
TEST_F(Watch, AnyChangeIsAMove) {
  const std::vector<std::function<void(Progress&, int)>> changes{
      [](Progress& progress, int turn) { progress.stage = turn % 2; },
      [](Progress& progress, int turn) { progress.microbatch = turn; },
      [](Progress& progress, int turn) { progress.step = 5 + turn; },
      [](Progress& progress, int turn) { progress.finished = 4 + turn; },
      [](Progress& progress, int turn) { progress.set_action(turn % 2 == 0 ? "waits for gradient" : "waits for activation"); },
      [](Progress& progress, int turn) {
        progress.wait = static_cast<std::int32_t>(turn % 2 == 0 ? WaitReason::gradient : WaitReason::activation);
      }};
  for (std::size_t change = 0; change < changes.size(); ++change) {
    watch_.emplace(schedule_, cluster::Topology(4, 4, 0), 1500ms);
    for (int turn = 0; turn < 6; ++turn) {
      auto progress = doing(0, WaitReason::gradient, 0, 3, 4, 1, 1);
      changes[change](progress, turn);
      EXPECT_FALSE(pass(1s, {progress})) << change << " " << turn;
    }
    EXPECT_TRUE(pass(3s, {doing(0, WaitReason::gradient, 0, 3, 4, 1, 1)})) << change;
  }
}

TEST_F(Watch, NamesASlowTransferWhileOthersGoOn) {
  std::optional<std::string> text;
  for (int microbatch = 2; microbatch < 8 && !text; ++microbatch)
    text = pass(400ms, {doing(0, "forward", 0, microbatch, microbatch), doing(1, WaitReason::activation, 1, 0, 0, 0, 0)});
  expect_part(text, "no progress for ");
  expect_part(text,
              "The cause: the transfer from rank 0 to rank 1: the activation of microbatch 0 was produced on stage 0 and has not arrived");
}

TEST_F(Watch, NamesTheSilentProcess) {
  pass(200ms, {doing(0, "forward", 0, 0, 0), doing(1, "forward", 1, 0, 0)});
  const auto text = pass(3s, {doing(0, WaitReason::gradient, 0, 0, 4, 1, 1)});
  expect_part(text, "The cause: rank 1 in process 1 has been silent for ");
  expect_part(text, "last known: rank 1: forward, stage 1, microbatch 0, step 5");
}

TEST_F(Watch, AProcessThatIsLostWaitsNoLonger) {
  pass(200ms, {doing(1, WaitReason::activation, 1, 3, 3, 0, 0), doing(2, WaitReason::activation, 2, 3, 3, 1, 1)});
  EXPECT_NE(watch_->waits(now_).find("rank 1 waits for "), std::string::npos) << watch_->waits(now_);
  const std::vector<cluster::PeerFailure> lost{{1, "host", "its connection closed", 0, {}}};
  const auto text = watch_->waits(now_, lost);
  EXPECT_EQ(text.find("rank 1 waits for "), std::string::npos) << text;
  EXPECT_NE(text.find("rank 2 waits for the activation of microbatch 3 from stage 1 on rank 1"), std::string::npos) << text;
}

TEST_F(Watch, NamesACycle) {
  const auto text = pass(3s, {doing(0, WaitReason::gradient, 0, 7, 1, 1, 1), doing(1, WaitReason::activation, 1, 7, 1, 0, 0)});
  expect_part(text, "the waits form a cycle through rank 0");
}

TEST_F(Watch, IsPatientWhereStepsAreLong) {
  // Actions take two seconds each: the first looks like a stall; after it, only actions that take half as long again do.
  for (int action = 0; action < 5; ++action) {
    const auto text = pass(2s, {doing(0, "forward", 0, action, action), doing(1, WaitReason::activation, 1, action, action, 0, 0)});
    EXPECT_EQ(text.has_value(), action == 0) << action;
  }
  const std::vector<Progress> long_one{doing(0, "forward", 0, 5, 5), doing(1, WaitReason::activation, 1, 5, 5, 0, 0)};
  EXPECT_FALSE(pass(2800ms, long_one));
  EXPECT_TRUE(pass(1s, long_one));
}

TEST_F(Watch, SaysNothingBetweenStepsAndWhenItIsOff) {
  EXPECT_FALSE(pass(10s, {doing(0, "waits for the coordinator", -1, -1, -1), doing(1, "waits for the coordinator", -1, -1, -1)}));
  watch_.emplace(schedule_, cluster::Topology(4, 4, 0), 0ms);
  EXPECT_FALSE(pass(10s, {doing(0, "forward", 0, 0, 0), doing(1, WaitReason::activation, 1, 0, 0, 0, 0)}));
}

}  // namespace
}  // namespace millrace::actors
