#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/base/check.hpp"
#include "tests/tools/run_command.hpp"
#include "tests/tools/text.hpp"

namespace millrace::tests {
namespace {

/// Runs millrace rehearse --json with short actions: 2 ms each, three steps.
nlohmann::json rehearsal(const Words& what, const std::string& launcher = "") {
  const auto result = run_millrace(joined({"rehearse", "--costs", "2,2,2", "--steps", "3", "--json"}, what), launcher);
  EXPECT_EQ(result.code, 0) << result.err;
  return result.code == 0 ? nlohmann::json::parse(result.out) : nlohmann::json();
}

double number(const nlohmann::json& json, const char* name) { return json.at(name).get<double>(); }

double sum(const nlohmann::json& ranks, const char* cause) {
  double sum = 0;
  for (const auto& rank : ranks) sum += number(rank, cause);
  return sum;
}

/// Properties that hold whatever else the machine does: nothing is faster than its given time, and every rank's time is fully
/// accounted for.
void expect_sound(const nlohmann::json& json, std::size_t ranks, double actions, double busy) {
  ASSERT_EQ(json.at("measured_times").size(), ranks);
  EXPECT_EQ(json.at("steps").size(), 3U);
  double count = 0;
  for (const auto& rank : json.at("actions")) count += rank.get<double>();
  EXPECT_EQ(count, actions);
  EXPECT_NEAR(sum(json.at("predicted_times"), "busy"), busy, 1e-9);
  EXPECT_GE(sum(json.at("measured_times"), "busy"), busy * 0.99);
  EXPECT_GE(number(json, "measured"), number(json, "predicted") * 0.99);
  for (const auto& rank : json.at("measured_times")) {
    double whole = 0;
    for (const auto& [cause, time] : rank.items()) whole += time.get<double>();
    EXPECT_NEAR(whole, number(json, "measured"), 0.01) << rank;
  }
  const auto& lost = json.at("lost_time");
  EXPECT_NEAR(number(lost, "timers") + number(lost, "runtime"), number(json, "measured") - number(json, "predicted"), 1e-9);
  // Timers never end early, and the measured step contains the actions as they were. (Times are transmitted as floats.)
  EXPECT_GE(number(lost, "timers"), -0.01);
  EXPECT_GE(number(lost, "runtime"), -0.01);
  EXPECT_GE(number(json, "as_timed"), number(json, "predicted") - 0.01);
  EXPECT_FALSE(json.at("delays").empty());
}

TEST(Rehearse, RunsEveryAction) {
  const auto json = rehearsal({"1f1b", "--ranks", "2", "--microbatches", "4"});
  ASSERT_FALSE(json.is_null());
  EXPECT_NEAR(number(json, "predicted"), 30, 1e-9);  // (M + P - 1)(F + B)
  expect_sound(json, 2, 16, 48);
}

TEST(Rehearse, SplitsBackwardsAndTakesChunks) {
  const auto v = rehearsal({"zb-v", "--ranks", "2", "--microbatches", "4"});
  ASSERT_FALSE(v.is_null());
  expect_sound(v, 2, 48, 48);
  const auto mirror = rehearsal({"dualpipe", "--ranks", "2", "--microbatches", "4"});
  ASSERT_FALSE(mirror.is_null());
  expect_sound(mirror, 2, 24, 48);
}

TEST(Rehearse, HoldsBackTokens) {
  const auto json = rehearsal({"1f1b", "--ranks", "2", "--microbatches", "2", "--link-latency", "5"});
  ASSERT_FALSE(json.is_null());
  expect_sound(json, 2, 8, 24);
  EXPECT_GT(number(json.at("lost_time"), "latency"), 0);
  // Rank 1 ends its forwards and backwards at 9, 13, 15 and 19 ms, and rank 0 begins its last backward when the last gradient is there.
  EXPECT_NEAR(number(json, "predicted"), 28, 1e-9);
  EXPECT_GE(number(json, "measured"), 28 - 0.01);  // no timer ends early
}

TEST(Rehearse, SlowsRanksAndStalls) {
  const auto slow = rehearsal({"1f1b", "--ranks", "2", "--microbatches", "2", "--slow", "1:2"});
  ASSERT_FALSE(slow.is_null());
  expect_sound(slow, 2, 8, 36);
  EXPECT_GT(number(slow.at("lost_time"), "slow_ranks"), 0);
  const auto stall = rehearsal({"1f1b", "--ranks", "2", "--microbatches", "2", "--stall", "1:0:9"});
  ASSERT_FALSE(stall.is_null());
  expect_sound(stall, 2, 8, 33);
  EXPECT_NEAR(number(stall.at("lost_time"), "stalls"), 9, 1e-9);
  // Drawn from the seed: the same result again, and on one rank.
  const auto drawn = rehearsal({"1f1b", "--ranks", "2", "--microbatches", "2", "--stall", "9", "--seed", "3"});
  ASSERT_FALSE(drawn.is_null());
  expect_sound(drawn, 2, 8, 33);
}

TEST(Rehearse, RunsInSeveralProcesses) {
  const auto json = rehearsal({"1f1b", "--ranks", "4", "--microbatches", "4", "--bytes", "100000"}, on_processes(2));
  ASSERT_FALSE(json.is_null());
  expect_sound(json, 4, 32, 96);
}

TEST(Rehearse, RunsATableOfOnesOwn) {
  const TemporaryFolder folder;
  const auto table = folder.write("own.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  const auto json = rehearsal({table});
  ASSERT_FALSE(json.is_null());
  expect_sound(json, 2, 8, 24);
}

TEST(Rehearse, TheTextLaysBothSideBySide) {
  const auto result = run_millrace({"rehearse", "1f1b", "--ranks", "2", "--microbatches", "2", "--costs", "2,2,2", "--steps", "1"});
  ASSERT_EQ(result.code, 0) << result.err;
  expect_parts(result.out, {"step     measured", "predicted      18.00 ms", "ratio ", "bubble   measured",
                            "late timers: ", "this runtime: ", "activation", "the largest delays", "bubble of the schedule",
                            "1 process | median of 1 step"});
}

TEST(Rehearse, ShowsTheFastestStepWhereAsked) {
  const auto json = rehearsal({"1f1b", "--ranks", "2", "--microbatches", "2", "--fastest"});
  ASSERT_FALSE(json.is_null());
  expect_sound(json, 2, 8, 24);
  const auto steps = json.at("steps").get<std::vector<double>>();
  EXPECT_EQ(number(json, "measured"), *std::ranges::min_element(steps));
}

TEST(Rehearse, RefusesWhatItCannotDo) {
  const auto usage = static_cast<int>(ExitCode::usage);
  EXPECT_EQ(run_millrace({"rehearse"}).code, usage);
  EXPECT_EQ(run_millrace({"rehearse", "1f1b"}).code, usage);
  const Words small{"rehearse", "1f1b", "--ranks", "2", "--microbatches", "2"};
  for (const Words& more :
       {Words{"--stall", "2:0:9"}, Words{"--stall", "0:4:9"}, Words{"--stall", "0:9"}, Words{"--bytes", "0"}, Words{"--steps", "10000"}}) {
    const auto result = run_millrace(joined(small, more));
    EXPECT_EQ(result.code, usage) << more[1];
    expect_parts(result.err, {"expected"});
  }
}

TEST(Rehearse, ASlowTransferIsToldWhileItLasts) {
  const auto result = run_millrace(
      {"rehearse", "1f1b", "--ranks", "2", "--microbatches", "1", "--costs", "20,20,20", "--link-latency", "1900", "--steps", "1"},
      on_processes(2));
  EXPECT_EQ(result.code, 0) << result.err;
  expect_parts(
      result.err,
      {"warning: [actors.stall_watch] ", "rank 1 waits for the activation of microbatch 0 from stage 0 on rank 0 (",
       "The cause: the transfer from rank 0 to rank 1: the activation of microbatch 0 was produced on stage 0 and has not arrived"});
}

}  // namespace
}  // namespace millrace::tests
