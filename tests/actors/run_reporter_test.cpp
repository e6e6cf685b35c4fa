#include "actors/telemetry/run_reporter.hpp"

#include <gtest/gtest.h>

#include <chrono>

#include "actors/telemetry/live_history.hpp"
#include "cluster/host/console.hpp"

namespace millrace::actors {
namespace {

using Cause = runtime::CheckpointWarning::Cause;

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// Output on stderr for several checkpoints.
std::string told_of(RunReporter& reporter, const std::vector<CheckpointCommitted>& results) {
  ::testing::internal::CaptureStderr();
  ::testing::internal::CaptureStdout();
  for (const auto& result : results) reporter.checkpoint(result);
  EXPECT_TRUE(cluster::drain_console(std::chrono::seconds(60)));
  (void)::testing::internal::GetCapturedStdout();
  return ::testing::internal::GetCapturedStderr();
}

TEST(RunReporter, WarnsOfWhatDoesNotWorkBesideACheckpointOnceWhileItLasts) {
  RunReporter reporter({}, nullptr);
  const auto undeleted = [](std::int64_t step) {
    return CheckpointCommitted{step, "", {{Cause::deletion, fmt::format("an old checkpoint could not be deleted: step {}", step - 20)}}};
  };
  const auto first = told_of(reporter, {undeleted(30), undeleted(40), undeleted(50)});
  EXPECT_EQ(count_of(first, "warning: "), 1) << first;
  EXPECT_EQ(count_of(first, "checkpoint of step 30: an old checkpoint could not be deleted: step 10"), 1) << first;

  auto both = undeleted(60);
  both.warnings.push_back({Cause::journal, "the run's journal could not be written"});
  const auto second = told_of(reporter, {both, both});
  EXPECT_EQ(count_of(second, "warning: "), 1) << second;
  EXPECT_EQ(count_of(second, "journal"), 1) << second;

  EXPECT_EQ(told_of(reporter, {{70, "", {}}}), "");
  EXPECT_EQ(count_of(told_of(reporter, {undeleted(80), undeleted(90)}), "warning: "), 1) << "it worked in between";
}

TEST(RunReporter, AFailedAttemptDoesNotMeanThatDeletingWorksAgain) {
  RunReporter reporter({}, nullptr);
  const CheckpointCommitted undeleted{30, "", {{Cause::deletion, "an old one"}}};
  const auto text = told_of(reporter, {undeleted, {40, "rank 0: disk full", {}}, undeleted});
  EXPECT_EQ(count_of(text, "an old one"), 1) << text;
  EXPECT_EQ(count_of(text, "no checkpoint of step 40: rank 0: disk full"), 1) << text;
}

TEST(RunReporter, TellsItsListenersOfEveryCheckpoint) {
  struct Listener : RunListener {
    void step(const StepRecord&) override {}
    void evaluation(const EvaluationRecord&, bool) override {}
    void checkpoint(const CheckpointCommitted& result) override { history.add_checkpoint(result); }
    LiveHistory history;
  } listener;
  RunReporter reporter({}, nullptr);
  reporter.also(&listener);
  (void)told_of(reporter, {{10, "", {}}, {20, "disk full", {{Cause::deletion, "its folder is left"}}}});
  auto checkpoints = listener.history.read().checkpoints;
  EXPECT_EQ(checkpoints.step, 10);
  EXPECT_EQ(checkpoints.committed, 1);
  EXPECT_EQ(checkpoints.failed, 1);
  EXPECT_EQ(checkpoints.problems, (std::vector<std::string>{"disk full", "its folder is left"}));
  (void)told_of(reporter, {{30, "", {}}});
  checkpoints = listener.history.read().checkpoints;
  EXPECT_EQ(checkpoints.step, 30);
  EXPECT_TRUE(checkpoints.problems.empty());
}

/// What a run of `steps` steps prints, each of which takes `seconds`.
std::string printed(const LogSettings& log, std::int64_t steps, double seconds) {
  RunReporter reporter(log, nullptr);
  ::testing::internal::CaptureStdout();
  for (std::int64_t step = 1; step <= steps; ++step) {
    StepRecord record;
    record.step = step;
    record.steps = steps;
    record.seconds = seconds;
    reporter.step(record);
  }
  EXPECT_TRUE(cluster::drain_console(std::chrono::seconds(60)));
  return ::testing::internal::GetCapturedStdout();
}

TEST(RunReporter, ShowsEveryTenthStepAndTheFirstAndTheLast) {
  const std::string text = printed({}, 23, 0.5);
  EXPECT_EQ(count_of(text, "\n"), 4) << text;
  for (const char* step : {"step 1/23", "step 10/23", "step 20/23", "step 23/23"}) EXPECT_EQ(count_of(text, step), 1) << text;
  EXPECT_EQ(count_of(printed({.every = 1}, 23, 0.5), "\n"), 23);
  EXPECT_EQ(count_of(printed({.every = 100}, 23, 0.5), "\n"), 2);
}

TEST(RunReporter, ShowsASlowStepEachMinute) {
  const std::string text = printed({.every = 100}, 8, 25);
  EXPECT_EQ(count_of(text, "\n"), 4) << text;
  for (const char* step : {"step 1/8", "step 4/8", "step 7/8", "step 8/8"}) EXPECT_EQ(count_of(text, step), 1) << text;
}

TEST(RunReporter, UpdatesALineOfATerminalInPlace) {
  const auto columns = [] { return std::size_t{30}; };
  const std::string text = printed({.columns = columns}, 12, 0.5);
  EXPECT_EQ(count_of(text, "\r\033[K"), 12) << text;
  EXPECT_EQ(count_of(text, "\n"), 0) << text;
  std::size_t begin = 0;
  while ((begin = text.find("\r\033[K", begin)) != std::string::npos) {
    begin += 4;
    EXPECT_LT(text.substr(begin, text.find('\r', begin) - begin).size(), 30U);
  }
  const std::string with_lines = printed({.every = 5, .columns = columns}, 12, 0.5);
  EXPECT_EQ(count_of(with_lines, "\r\033[K"), 12) << with_lines;
  EXPECT_EQ(count_of(with_lines, "\n"), 4) << with_lines;
}

TEST(RunReporter, ShowsHowFarALongEvaluationIsUntilItEnds) {
  auto now = LongEvaluation::Clock::time_point(std::chrono::seconds(1000));
  RunReporter reporter({.columns = [] { return std::size_t{80}; }, .now = [&now] { return now; }}, nullptr);
  const auto shown = [&](auto call) {
    ::testing::internal::CaptureStdout();
    call();
    EXPECT_TRUE(cluster::drain_console(std::chrono::seconds(60)));
    return ::testing::internal::GetCapturedStdout();
  };
  reporter.evaluation_begins(40, 100);
  EXPECT_EQ(shown([&] { reporter.evaluating(1); }), "") << "it has just begun";
  now += std::chrono::milliseconds(2100);
  const auto line = shown([&] { reporter.evaluating(25); });
  EXPECT_EQ(line.rfind("\r\033[Kevaluation after step 40 | 25 of 100 microbatches | ", 0), 0U) << line;
  const auto end = shown([&] { reporter.evaluation({40, 1.0, 10, {}}, false); });
  EXPECT_EQ(end.rfind("\nevaluation after step 40 | held-out loss 1.0000", 0), 0U) << end;
  now += std::chrono::seconds(20);
  EXPECT_EQ(shown([&] { reporter.evaluating(100); }), "") << "it is over";
}

}  // namespace
}  // namespace millrace::actors
