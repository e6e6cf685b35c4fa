#include "actors/coordinator.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "tests/actors/recording_port.hpp"

namespace millrace::actors {
namespace {

TEST(Coordinator, RunsStepsInPhasesAndEnds) {
  RecordingPort port;
  Coordinator coordinator(two_ranks(2), port);
  coordinator.receive(RankReady{0, 700});
  EXPECT_TRUE(port.sent.empty()) << "nothing starts before every rank is ready";
  coordinator.receive(RankReady{1, 300});
  EXPECT_EQ(port.planned_bytes, 700U);
  ASSERT_TRUE(port.last_is<RunStep>());
  answer_step(coordinator, 0);
  ASSERT_TRUE(port.last_is<Optimize>());
  const auto& update = std::get<Optimize>(port.sent.back());
  EXPECT_FLOAT_EQ(static_cast<float>(update.gradient_scale), static_cast<float>(1.0 / (3.0 + 1e-6)));
  EXPECT_DOUBLE_EQ(update.learning_rate, 0.1);
  EXPECT_EQ(update.update, 1);
  answer_optimize(coordinator, 0);
  ASSERT_EQ(port.records.size(), 1U);
  EXPECT_DOUBLE_EQ(port.records[0].loss, 2.0);
  EXPECT_DOUBLE_EQ(port.records[0].gradient_norm, 3.0);
  answer_step(coordinator, 1);
  answer_optimize(coordinator, 1);
  EXPECT_TRUE(port.last_is<Stop>());
  EXPECT_EQ(port.ended, ExitCode::ok);
}

TEST(Coordinator, TellsOfTheFullestDevice) {
  RecordingPort port;
  Coordinator coordinator(two_ranks(2), port);
  coordinator.receive(RankReady{0, 0});
  coordinator.receive(RankReady{1, 0});
  coordinator.receive(StepReport{0, 0, {{0, 1.0}, {2, 4.0}}, {}, {}, 50, 100});
  coordinator.receive(StepReport{1, 0, {{1, 4.0}}, lm_loss({12.0, 8.0}), {}, 60, 200});
  answer_optimize(coordinator, 0);
  ASSERT_EQ(port.records.size(), 1U);
  EXPECT_EQ(port.records[0].device_used, 50U);
  EXPECT_EQ(port.records[0].device_total, 100U);
  answer_step(coordinator, 1);
  answer_optimize(coordinator, 1);
  ASSERT_EQ(port.records.size(), 2U);
  EXPECT_EQ(port.records[1].device_total, 0U) << "of ranks on a CPU";
}

TEST(Coordinator, TellsOfTheFullestDeviceWhicheverRankHasIt) {
  for (const bool first_is_fuller : {true, false}) {
    RecordingPort port;
    Coordinator coordinator(two_ranks(1), port);
    coordinator.receive(RankReady{0, 0});
    coordinator.receive(RankReady{1, 0});
    const auto report = [&](int rank, bool fuller) {
      StepReport made{rank, 0, {}, {}, {}, fuller ? 50U : 60U, fuller ? 100U : 200U};
      made.squares = rank == 0 ? decltype(made.squares){{0, 1.0}, {2, 4.0}} : decltype(made.squares){{1, 4.0}};
      if (rank == 1) made.losses = lm_loss({12.0, 8.0});
      return made;
    };
    coordinator.receive(report(0, first_is_fuller));
    coordinator.receive(report(1, !first_is_fuller));
    answer_optimize(coordinator, 0);
    ASSERT_EQ(port.records.size(), 1U);
    EXPECT_EQ(port.records[0].device_used, 50U);
    EXPECT_EQ(port.records[0].device_total, 100U);
  }
}

TEST(Coordinator, SharesOfTimeAreThoseOfAnyTime) {
  for (const std::int64_t wall : {std::int64_t{0}, std::int64_t{1}}) {
    RecordingPort port;
    Coordinator coordinator(two_ranks(1), port);
    coordinator.receive(RankReady{0, 0});
    coordinator.receive(RankReady{1, 0});
    const auto whole = static_cast<double>(wall);
    coordinator.receive(StepReport{0, 0, {{0, 1.0}, {2, 4.0}}, {}, {wall, 0, 0, 0, 0}, 0, 0, metrics(whole, whole, whole, 0)});
    coordinator.receive(StepReport{1, 0, {{1, 4.0}}, lm_loss({12.0, 8.0}), {}});
    answer_optimize(coordinator, 0);
    ASSERT_EQ(port.records.size(), 1U);
    const auto& record = port.records[0];
    for (const auto metric : {metric_index("bubble"), metric_index("wait"), metric_index("data")})
      EXPECT_EQ(record.metrics[metric], static_cast<double>(wall));
  }
}

TEST(Coordinator, RecordsWhatAStepWas) {
  RecordingPort port;
  auto setup = two_ranks(7);
  setup.train.batch = 3;
  setup.train.microbatches = 2;
  setup.flops_per_step = 12345;
  setup.first_step = 4;
  Coordinator coordinator(setup, port);
  port.time = 1'000'000'000;
  coordinator.receive(RankReady{0, 0});
  coordinator.receive(RankReady{1, 0});
  EXPECT_EQ(std::get<RunStep>(port.sent.back()).step, 4);
  coordinator.receive(StepReport{0, 4, {{0, 1.0}, {2, 4.0}}, {}, {100, 60, 10, 20, 5}, 0, 0, metrics(10, 20, 5, 700)});
  coordinator.receive(StepReport{1, 4, {{1, 4.0}}, lm_loss({12.0, 8.0}), {300, 200, 30, 40, 15}, 0, 0, metrics(30, 40, 15, 500)});
  port.time = 1'250'000'000;
  EXPECT_EQ(std::get<Optimize>(port.sent.back()).update, 5);
  answer_optimize(coordinator, 4);
  ASSERT_EQ(port.records.size(), 1U);
  const auto& record = port.records[0];
  EXPECT_EQ(record.step, 5);
  EXPECT_EQ(record.steps, 7);
  EXPECT_DOUBLE_EQ(record.learning_rate, 0.5);
  EXPECT_EQ(record.tokens, 3 * 4 * 2);
  EXPECT_EQ(record.targets, 10);
  EXPECT_DOUBLE_EQ(record.seconds, 0.25);
  EXPECT_DOUBLE_EQ(record.flops, 12345);
  EXPECT_EQ(record.ranks.size(), 2U);
  EXPECT_DOUBLE_EQ(record.metrics[metric_index("bubble")], 40.0 / 400) << "of the time of all ranks";
  EXPECT_DOUBLE_EQ(record.metrics[metric_index("wait")], 60.0 / 400);
  EXPECT_DOUBLE_EQ(record.metrics[metric_index("data")], 20.0 / 400);
  EXPECT_EQ(record.metrics[metric_index("resident_bytes")], 700) << "of the largest";
}

TEST(Coordinator, SaysWhatTheRunIsAt) {
  RecordingPort port;
  auto setup = two_ranks(2);
  setup.evaluate.every = 1;
  setup.evaluation_microbatches = 1;
  setup.sample.tokens = 1;
  setup.prompt = {7};
  setup.writes_checkpoints = true;
  Coordinator coordinator(setup, port);
  std::vector<std::string> said{coordinator.describe()};
  coordinator.receive(RankReady{0, 0});
  coordinator.receive(RankReady{1, 0});
  for (int step = 0; step < 2; ++step) {
    said.push_back(coordinator.describe());
    answer_step(coordinator, step);
    said.push_back(coordinator.describe());
    answer_optimize(coordinator, step);
    said.push_back(coordinator.describe());
    coordinator.receive(EvaluationReport{0, {}});
    coordinator.receive(EvaluationReport{1, lm_loss({2.0})});
  }
  said.push_back(coordinator.describe());
  coordinator.receive(ShardWritten{0, 2, "{}", ""});
  coordinator.receive(ShardWritten{1, 2, "{}", ""});
  coordinator.committed(2, "");
  coordinator.receive(LogitsReport{1, {0.0F, 1.0F}});
  coordinator.receive(LogitsReport{0, {}});
  said.push_back(coordinator.describe());
  EXPECT_EQ(said, (std::vector<std::string>{"start", "step 1", "step 1", "evaluation after step 1", "step 2", "step 2",
                                            "evaluation after step 2", "sampling", "the end of the run"}));
}

TEST(Coordinator, SendsAsManyMessagesForManyMicrobatches) {
  std::vector<std::size_t> sent;
  for (const int microbatches : {1, 64}) {
    RecordingPort port;
    auto setup = two_ranks(1);
    setup.train.microbatches = microbatches;
    Coordinator coordinator(setup, port);
    coordinator.receive(RankReady{0, 0});
    coordinator.receive(RankReady{1, 0});
    StepReport first{0, 0, {{0, 1.0}, {2, 1.0}}, {}, {}};
    StepReport second{1, 0, {{1, 1.0}}, lm_loss(std::vector<double>(static_cast<std::size_t>(microbatches), 1.0)), {}};
    coordinator.receive(first);
    coordinator.receive(second);
    answer_optimize(coordinator, 0);
    sent.push_back(port.sent.size());
  }
  EXPECT_EQ(sent[0], sent[1]);
}

TEST(Coordinator, StopsBeforeUpdatingOnWhatIsNotFinite) {
  for (const bool in_loss : {true, false}) {
    RecordingPort port;
    Coordinator coordinator(two_ranks(2), port);
    coordinator.receive(RankReady{0, 0});
    coordinator.receive(RankReady{1, 0});
    const double bad = std::numeric_limits<double>::quiet_NaN();
    StepReport first{0, 0, {{0, 1.0}, {2, in_loss ? 1.0 : bad}}, {}, {}};
    StepReport second{1, 0, {{1, 4.0}}, lm_loss({12.0, in_loss ? bad : 1.0}), {}};
    coordinator.receive(first);
    coordinator.receive(second);
    ASSERT_EQ(port.count<RunStep>(), 2U) << "once more, to find the operation";
    EXPECT_EQ(port.ended, std::nullopt);
    coordinator.receive(first);
    coordinator.receive(second);
    EXPECT_EQ(port.count<RunStep>(), 2U);
    EXPECT_EQ(port.count<Optimize>(), 0U);
    EXPECT_EQ(port.ended, ExitCode::numerics);
    EXPECT_EQ(port.end_message.find(in_loss ? "step 1: the loss of microbatch 1 is nan" : "step 1: the gradient of c is not finite"), 0U)
        << port.end_message;
  }
}

TEST(Coordinator, TellsWhatTheSecondRunOfABadStepFound) {
  const double bad = std::numeric_limits<double>::infinity();
  for (const bool found : {true, false}) {
    RecordingPort port;
    Coordinator coordinator(two_ranks(2), port);
    coordinator.receive(RankReady{0, 0});
    coordinator.receive(RankReady{1, 0});
    const StepReport first{0, 0, {{0, 1.0}, {2, 1.0}}, {}, {}};
    coordinator.receive(first);
    coordinator.receive(StepReport{1, 0, {{1, 4.0}}, lm_loss({12.0, bad}), {}});
    const auto& again = std::get<RunStep>(port.sent.back());
    EXPECT_TRUE(again.again && again.find_nan && again.step == 0);
    if (found) {
      coordinator.receive(StageFailed{1, 1, 0, 1, "1F1", static_cast<std::int32_t>(ExitCode::numerics), "operation x left a nan"});
    } else {
      coordinator.receive(first);
      coordinator.receive(StepReport{1, 0, {{1, 4.0}}, lm_loss({12.0, 1.0}), {}});
    }
    EXPECT_EQ(port.count<Optimize>(), 0U);
    EXPECT_EQ(port.ended, ExitCode::numerics);
    EXPECT_NE(port.end_message.find("the loss of microbatch 1 is inf"), std::string::npos) << port.end_message;
    EXPECT_NE(port.end_message.find(found ? "Run again: operation x left a nan" : "two results on this machine"), std::string::npos)
        << port.end_message;
  }
}

TEST(Coordinator, AddsTheLossesOfReplicasInTheOrderOfMicrobatches) {
  for (const bool finite : {true, false}) {
    RecordingPort port;
    auto setup = two_ranks(1);
    setup.model_stages = 2;  // microbatches 0 and 2 end in stage 1 on rank 1, 1 and 3 in its replica, stage 3 on rank 0
    Coordinator coordinator(setup, port);
    coordinator.receive(RankReady{0, 0});
    coordinator.receive(RankReady{1, 0});
    // In this order the sum is 1; replica after replica it would be 0, because adding to 1e30 is lost in rounding.
    StepReport first{0, 0, {{0, 1.0}, {2, 1.0}}, lm_loss({-1e30, finite ? 0.0 : std::numeric_limits<double>::infinity()}, 3), {}};
    StepReport second{1, 0, {{1, 1.0}}, lm_loss({1e30, 1.0}), {}};
    coordinator.receive(first);
    coordinator.receive(second);
    if (!finite) {
      coordinator.receive(first);  // the step's second run
      coordinator.receive(second);
      EXPECT_NE(port.end_message.find("microbatch 3"), std::string::npos) << port.end_message;
      continue;
    }
    answer_optimize(coordinator, 0);
    ASSERT_EQ(port.records.size(), 1U);
    EXPECT_DOUBLE_EQ(port.records[0].loss, 0.1);
  }
}

TEST(Coordinator, EvaluatesAndSamplesAtTheEnd) {
  RecordingPort port;
  auto setup = two_ranks(1);
  setup.evaluation_microbatches = 2;
  setup.evaluation_targets = 4;
  setup.sample.tokens = 3;
  setup.sample.temperature = 0;
  setup.prompt = {7};
  Coordinator coordinator(setup, port);
  coordinator.receive(RankReady{0, 0});
  coordinator.receive(RankReady{1, 0});
  answer_step(coordinator, 0);
  answer_optimize(coordinator, 0);
  ASSERT_TRUE(port.last_is<Evaluate>());
  coordinator.receive(EvaluationReport{0, {}});
  coordinator.receive(EvaluationReport{1, lm_loss({2.0, 6.0})});
  ASSERT_EQ(port.evaluations.size(), 1U);
  EXPECT_DOUBLE_EQ(port.evaluations[0].second, 2.0);
  for (int token = 0; token < 3; ++token) {
    ASSERT_TRUE(port.last_is<ComputeLogits>());
    const auto& request = std::get<ComputeLogits>(port.sent.back());
    EXPECT_EQ(request.position, token);
    EXPECT_EQ(request.tokens.size(), 4U);
    coordinator.receive(LogitsReport{1, {0.0F, 1.0F, 3.0F, 2.0F}});
    coordinator.receive(LogitsReport{0, {}});
  }
  EXPECT_EQ(port.sample, (std::vector<std::int32_t>{7, 2, 2, 2}));
  EXPECT_EQ(port.ended, ExitCode::ok);
}

TEST(Coordinator, AFinishedRunThatIsStartedAgainSamples) {
  RecordingPort port;
  auto setup = two_ranks(4);
  setup.first_step = 4;
  setup.sample.tokens = 1;
  setup.sample.temperature = 0;
  setup.prompt = {7};
  Coordinator coordinator(setup, port);
  coordinator.receive(RankReady{0, 0});
  EXPECT_TRUE(port.sent.empty());
  coordinator.receive(RankReady{1, 0});
  ASSERT_TRUE(port.last_is<ComputeLogits>());
  coordinator.receive(LogitsReport{1, {0.0F, 1.0F, 3.0F, 2.0F}});
  coordinator.receive(LogitsReport{0, {}});
  EXPECT_EQ(port.sample, (std::vector<std::int32_t>{7, 2}));
  EXPECT_EQ(port.count<RunStep>(), 0U);
  EXPECT_EQ(port.ended, ExitCode::ok);
}

/// Steps of one loss, whose norm is 3 but for that of step `spike`.
void run_with_a_spike(Coordinator& coordinator, std::int64_t first, std::int64_t end, std::int64_t spike) {
  for (std::int64_t step = first; step < end; ++step) {
    answer_step(coordinator, step, step == spike ? 400.0 : 4.0);
    answer_optimize(coordinator, step);
  }
}

TEST(Coordinator, SkipsASpikeAndSavesWhatItIsFoundBy) {
  auto setup = two_ranks(8);
  setup.train.skip_spikes = true;
  setup.train.skip_window = 4;
  setup.writes_checkpoints = true;
  setup.checkpoint.every = 4;
  RecordingPort port;
  Coordinator coordinator(setup, port);
  coordinator.receive(RankReady{0, 0});
  coordinator.receive(RankReady{1, 0});
  run_with_a_spike(coordinator, 0, 4, 2);
  std::vector<bool> skipped;
  std::vector<std::int64_t> updates;
  runtime::RunState saved;
  for (const auto& message : port.sent) {
    if (const auto* optimize = std::get_if<Optimize>(&message)) {
      skipped.push_back(optimize->skip);
      updates.push_back(optimize->update);
    }
    if (const auto* snapshot = std::get_if<TakeSnapshot>(&message)) saved = snapshot->run;
  }
  EXPECT_EQ(skipped, (std::vector<bool>{false, false, true, false}));
  EXPECT_EQ(updates, (std::vector<std::int64_t>{1, 2, 3, 3}));
  ASSERT_EQ(port.records.size(), 4U);
  EXPECT_EQ(port.records[2].skipped, 1);
  EXPECT_EQ(port.records[2].skipped_this, true);
  EXPECT_EQ(port.records[3].skipped, 1);
  EXPECT_EQ(port.records[3].skipped_this, false);
  ASSERT_FALSE(saved.empty());
  EXPECT_EQ(saved, coordinator.run_state());

  // A run that resumes there decides as this one does.
  coordinator.receive(ShardWritten{0, 4, "{}", ""});
  coordinator.receive(ShardWritten{1, 4, "{}", ""});
  coordinator.committed(4, "");
  run_with_a_spike(coordinator, 4, 8, 5);
  setup.first_step = 4;
  setup.run_state = saved;
  RecordingPort port_again;
  Coordinator again(setup, port_again);
  again.receive(RankReady{0, 0});
  again.receive(RankReady{1, 0});
  run_with_a_spike(again, 4, 8, 5);
  ASSERT_EQ(port_again.records.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(port_again.records[i].skipped, port.records[4 + i].skipped) << i;
  EXPECT_EQ(again.run_state(), coordinator.run_state());
}

CoordinatorSetup saving_and_evaluating(std::int64_t steps) {
  auto setup = two_ranks(steps);
  setup.writes_checkpoints = true;
  setup.evaluate.every = 2;
  setup.evaluation_microbatches = 2;
  setup.evaluation_targets = 4;
  return setup;
}

void start_of(Coordinator& coordinator) {
  coordinator.receive(RankReady{0, 0});
  coordinator.receive(RankReady{1, 0});
}

void run_step(Coordinator& coordinator, std::int64_t step) {
  answer_step(coordinator, step);
  answer_optimize(coordinator, step);
}

TEST(Coordinator, CutsAnEvaluationShortWhenItIsAskedToEnd) {
  RecordingPort port;
  Coordinator coordinator(saving_and_evaluating(100), port);
  start_of(coordinator);
  run_step(coordinator, 0);
  run_step(coordinator, 1);
  ASSERT_TRUE(port.last_is<Evaluate>());
  coordinator.stop();
  ASSERT_EQ(port.count<Evaluate>(), 2U);
  EXPECT_EQ(std::get<Evaluate>(port.sent.back()).microbatches, 0) << "the ranks are to leave it";
  coordinator.stop();
  EXPECT_EQ(port.count<Evaluate>(), 2U) << "once is enough";
  coordinator.receive(EvaluationReport{0, {}});
  coordinator.receive(EvaluationReport{1, lm_loss({2.0, 6.0})});
  EXPECT_TRUE(port.evaluations.empty()) << "those losses mean nothing";
  ASSERT_TRUE(port.last_is<TakeSnapshot>());
  EXPECT_EQ(std::get<TakeSnapshot>(port.sent.back()).step, 2);
  coordinator.receive(ShardWritten{0, 2, "{}", ""});
  coordinator.receive(ShardWritten{1, 2, "{}", ""});
  coordinator.committed(2, "");
  EXPECT_EQ(port.ended, ExitCode::ok);
  EXPECT_EQ(port.end_message, "stopped after step 2 as requested");
}

TEST(Coordinator, BeginsNoEvaluationWhenItIsAskedToEnd) {
  RecordingPort port;
  Coordinator coordinator(saving_and_evaluating(100), port);
  start_of(coordinator);
  run_step(coordinator, 0);
  answer_step(coordinator, 1);
  coordinator.stop();
  answer_optimize(coordinator, 1);
  EXPECT_EQ(port.count<Evaluate>(), 0U);
  EXPECT_TRUE(port.last_is<TakeSnapshot>());
}

TEST(Coordinator, MakesUpForTheEvaluationThatAnEndCutShort) {
  for (const bool recorded : {false, true}) {
    RecordingPort port;
    auto setup = saving_and_evaluating(100);
    setup.first_step = 2;
    setup.evaluation_recorded = recorded;
    Coordinator coordinator(setup, port);
    start_of(coordinator);
    EXPECT_EQ(port.count<Evaluate>(), recorded ? 0U : 1U);
    if (recorded) continue;
    coordinator.receive(EvaluationReport{0, {}});
    coordinator.receive(EvaluationReport{1, lm_loss({2.0, 6.0})});
    EXPECT_EQ(port.evaluations.size(), 1U);
    EXPECT_EQ(port.count<TakeSnapshot>(), 0U) << "that step is on the disk";
    EXPECT_TRUE(port.last_is<RunStep>());
  }
}

TEST(Coordinator, EndsASampleThatIsNotWantedAnyMore) {
  RecordingPort port;
  auto setup = two_ranks(1);
  setup.sample.tokens = 30;
  setup.prompt = {7};
  Coordinator coordinator(setup, port);
  start_of(coordinator);
  run_step(coordinator, 0);
  ASSERT_TRUE(port.last_is<ComputeLogits>());
  coordinator.stop();
  coordinator.receive(LogitsReport{1, {0.0F, 1.0F, 3.0F, 2.0F}});
  coordinator.receive(LogitsReport{0, {}});
  EXPECT_EQ(port.ended, ExitCode::ok);
  EXPECT_EQ(port.count<ComputeLogits>(), 1U);
}

TEST(Coordinator, SavesTheResultBeforeItSamples) {
  RecordingPort port;
  auto setup = two_ranks(1);
  setup.writes_checkpoints = true;
  setup.sample.tokens = 1;
  setup.prompt = {7};
  Coordinator coordinator(setup, port);
  coordinator.receive(RankReady{0, 0});
  coordinator.receive(RankReady{1, 0});
  answer_step(coordinator, 0);
  answer_optimize(coordinator, 0);
  EXPECT_TRUE(port.last_is<TakeSnapshot>()) << "a sample that fails must not take the last checkpoint with it";
  coordinator.receive(ShardWritten{0, 1, "{}", ""});
  coordinator.receive(ShardWritten{1, 1, "{}", ""});
  EXPECT_EQ(port.count<ComputeLogits>(), 0U);
  coordinator.committed(1, "");
  ASSERT_TRUE(port.last_is<ComputeLogits>());
  coordinator.receive(StageFailed{0, 1, 0, 0, "F", static_cast<int>(ExitCode::model), "a token beyond the vocabulary"});
  EXPECT_EQ(port.ended, ExitCode::model);
  EXPECT_EQ(port.commits.size(), 1U);
}

}  // namespace
}  // namespace millrace::actors
