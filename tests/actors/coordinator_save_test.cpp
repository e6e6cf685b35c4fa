#include "actors/coordinator.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "tests/actors/recording_port.hpp"

namespace millrace::actors {
namespace {

TEST(Coordinator, WritesACheckpointWhileTheNextStepRuns) {
  RecordingPort port;
  auto setup = two_ranks(3);
  setup.writes_checkpoints = true;
  setup.checkpoint.every = 1;
  Coordinator coordinator(setup, port);
  coordinator.receive(RankReady{0, 0});
  coordinator.receive(RankReady{1, 0});
  answer_step(coordinator, 0);
  answer_optimize(coordinator, 0);
  EXPECT_EQ(port.count<TakeSnapshot>(), 1U);
  ASSERT_TRUE(port.last_is<RunStep>()) << "the next step starts right behind the snapshot";
  coordinator.receive(SnapshotTaken{0, 1, {{"t", "x"}}});
  coordinator.receive(SnapshotTaken{1, 1, {{"t", "x"}}});
  answer_step(coordinator, 1);
  answer_optimize(coordinator, 1);
  EXPECT_EQ(port.count<TakeSnapshot>(), 1U) << "staging is still in use";
  EXPECT_EQ(port.count<RunStep>(), 2U);
  coordinator.receive(ShardWritten{0, 1, "{}", ""});
  coordinator.receive(ShardWritten{1, 1, "{}", ""});
  ASSERT_EQ(port.commits.size(), 1U);
  coordinator.committed(1, "");
  EXPECT_EQ(port.count<TakeSnapshot>(), 2U);
  EXPECT_EQ(port.count<RunStep>(), 3U);
  answer_step(coordinator, 2);
  answer_optimize(coordinator, 2);
  EXPECT_FALSE(port.ended) << "the last checkpoints are waited for";
  for (int save = 2; save <= 3; ++save) {
    coordinator.receive(ShardWritten{0, save, "{}", ""});
    coordinator.receive(ShardWritten{1, save, "{}", ""});
    coordinator.committed(save, "");
  }
  EXPECT_EQ(port.ended, ExitCode::ok);
}

/// Two ranks that have finished the first step; its checkpoint is being written while the second step runs.
struct SavingRun {
  SavingRun() {
    coordinator.receive(RankReady{0, 0});
    coordinator.receive(RankReady{1, 0});
    answer_step(coordinator, 0);
    answer_optimize(coordinator, 0);
  }
  void stage() {
    coordinator.receive(SnapshotTaken{0, 1, {}});
    coordinator.receive(SnapshotTaken{1, 1, {}});
  }
  /// Rank 1 cannot continue in the second step.
  void fail() { coordinator.receive(StageFailed{1, 1, 1, 0, "F0", static_cast<int>(ExitCode::data), "no such token"}); }
  void write() {
    coordinator.receive(ShardWritten{0, 1, "{}", ""});
    coordinator.receive(ShardWritten{1, 1, "{}", ""});
  }
  static CoordinatorSetup setup() {
    auto setup = two_ranks(9);
    setup.writes_checkpoints = true;
    setup.checkpoint.every = 1;
    return setup;
  }
  RecordingPort port;
  Coordinator coordinator{setup(), port};
};

TEST(Coordinator, AFailedStepWaitsForTheCheckpointInFlight) {
  for (const std::string error : {"", "disk full"}) {
    SavingRun run;
    run.stage();
    run.fail();
    EXPECT_FALSE(run.port.ended) << "every rank has its copy: step 1 would be lost with step 2";
    run.write();
    ASSERT_EQ(run.port.commits.size(), 1U);
    EXPECT_FALSE(run.port.ended);
    run.coordinator.committed(1, error);
    EXPECT_EQ(run.port.ended, ExitCode::data) << "whether the checkpoint is written or not, the step is why the run ends";
    EXPECT_NE(run.port.end_message.find("no such token"), std::string::npos) << run.port.end_message;
    EXPECT_NE(run.port.end_message.find("step 2"), std::string::npos) << run.port.end_message;
  }
}

TEST(Coordinator, AStepThatIsNotFiniteWaitsForTheCheckpointInFlight) {
  SavingRun run;
  run.stage();
  answer_step(run.coordinator, 1, std::numeric_limits<double>::quiet_NaN());
  answer_step(run.coordinator, 1, std::numeric_limits<double>::quiet_NaN());
  EXPECT_FALSE(run.port.ended);
  run.write();
  run.coordinator.committed(1, "");
  EXPECT_EQ(run.port.ended, ExitCode::numerics);
  EXPECT_EQ(run.port.count<Optimize>(), 1U);
}

TEST(Coordinator, NothingFollowsAFailedStepButItsCheckpoint) {
  SavingRun run;
  run.stage();
  answer_step(run.coordinator, 1);
  answer_optimize(run.coordinator, 1);  // the checkpoint of step 2 waits for that of step 1
  run.fail();
  const auto sent = run.port.sent.size();
  run.fail();
  answer_step(run.coordinator, 1);
  run.write();
  run.coordinator.committed(1, "");
  EXPECT_EQ(run.port.ended, ExitCode::data);
  EXPECT_EQ(run.port.sent.size(), sent) << "no second checkpoint, no update";
}

TEST(Coordinator, AFailedStepDoesNotWaitForARankWithoutACopy) {
  SavingRun run;
  run.coordinator.receive(SnapshotTaken{0, 1, {}});
  run.fail();
  EXPECT_EQ(run.port.ended, ExitCode::data) << "rank 1 may never write its shard";
}

TEST(Coordinator, GoesOnAfterAFailedSaveAndStopsAfterThree) {
  RecordingPort port;
  auto setup = two_ranks(10);
  setup.writes_checkpoints = true;
  setup.checkpoint.every = 1;
  Coordinator coordinator(setup, port);
  coordinator.receive(RankReady{0, 0});
  coordinator.receive(RankReady{1, 0});
  for (int step = 0; step < 3; ++step) {
    ASSERT_FALSE(port.ended);
    answer_step(coordinator, step);
    answer_optimize(coordinator, step);
    coordinator.receive(ShardWritten{0, step + 1, "", "disk full"});
    EXPECT_EQ(port.discards.size(), static_cast<std::size_t>(step)) << "rank 1 still writes into the folder";
    coordinator.receive(ShardWritten{1, step + 1, "{}", ""});
    ASSERT_EQ(port.discards.size(), static_cast<std::size_t>(step) + 1);
    ASSERT_FALSE(port.ended) << "the folder is being removed";
    coordinator.committed(step + 1, "rank 0: disk full");
  }
  EXPECT_EQ(port.discards.size(), 3U);
  EXPECT_TRUE(port.commits.empty());
  EXPECT_EQ(port.ended, ExitCode::storage);
}

TEST(Coordinator, NamesTiedCopiesThatDiffer) {
  RecordingPort port;
  auto setup = two_ranks(3);
  setup.writes_checkpoints = true;
  setup.checkpoint.every = 1;
  Coordinator coordinator(setup, port);
  coordinator.receive(RankReady{0, 0});
  coordinator.receive(RankReady{1, 0});
  answer_step(coordinator, 0);
  answer_optimize(coordinator, 0);
  coordinator.receive(SnapshotTaken{0, 1, {{"table", "x"}}});
  coordinator.receive(SnapshotTaken{1, 1, {{"table", "y"}}});
  EXPECT_EQ(port.ended, ExitCode::internal);
  EXPECT_NE(port.end_message.find("step 1: the copies of table differ (x and y)"), std::string::npos) << port.end_message;
}

TEST(Coordinator, AnEvaluationThatIsNotFiniteEndsTheRunBeforeTheNextStep) {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity()}) {
    for (const bool saving : {true, false}) {
      RecordingPort port;
      auto setup = SavingRun::setup();
      setup.model_stages = 6;
      setup.checkpoint.every = saving ? 1 : 0;
      setup.evaluate.every = 2;
      setup.evaluation_microbatches = 2;
      setup.evaluation_targets = 4;
      Coordinator coordinator(setup, port);
      coordinator.receive(RankReady{0, 0});
      coordinator.receive(RankReady{1, 0});
      for (int step = 0; step < 2; ++step) {
        answer_step(coordinator, step);
        answer_optimize(coordinator, step);
        if (saving && step == 0) {  // the checkpoint of step 1 is in staging and not on the disk yet
          coordinator.receive(SnapshotTaken{0, 1, {}});
          coordinator.receive(SnapshotTaken{1, 1, {}});
        }
      }
      ASSERT_TRUE(port.last_is<Evaluate>());
      coordinator.receive(EvaluationReport{0, {}});
      coordinator.receive(EvaluationReport{1, lm_loss({2.0, bad}, 5)});
      if (saving) {
        EXPECT_FALSE(port.ended) << "the checkpoint of step 1 would be lost";
        coordinator.receive(ShardWritten{0, 1, "{}", ""});
        coordinator.receive(ShardWritten{1, 1, "{}", ""});
        coordinator.committed(1, "");
      }
      EXPECT_EQ(port.ended, ExitCode::numerics);
      EXPECT_EQ(port.end_message.find("rank 1, stage 5, evaluation after step 2: the loss of held-out microbatch 1 is "), 0U)
          << port.end_message;
      EXPECT_TRUE(port.evaluations.empty());
      EXPECT_EQ(port.count<RunStep>(), 2U);
      EXPECT_EQ(port.count<TakeSnapshot>(), saving ? 1U : 0U) << "step 2 is not saved";
    }
  }
}

TEST(Coordinator, SavesAndEndsWhenAsked) {
  RecordingPort port;
  auto setup = two_ranks(100);
  setup.writes_checkpoints = true;
  Coordinator coordinator(setup, port);
  coordinator.receive(RankReady{0, 0});
  coordinator.receive(RankReady{1, 0});
  port.stop = true;
  answer_step(coordinator, 0);
  answer_optimize(coordinator, 0);
  EXPECT_EQ(port.count<TakeSnapshot>(), 1U);
  coordinator.receive(ShardWritten{0, 1, "{}", ""});
  coordinator.receive(ShardWritten{1, 1, "{}", ""});
  coordinator.committed(1, "");
  EXPECT_EQ(port.ended, ExitCode::ok);
  EXPECT_EQ(port.count<RunStep>(), 1U);
}

}  // namespace
}  // namespace millrace::actors
