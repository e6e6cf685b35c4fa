#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "kernels/base/check.hpp"
#include "tests/tools/run_command.hpp"
#include "tests/tools/text.hpp"

namespace millrace::tests {
namespace {

/// Four layers on four ranks with 1f1b, so that the plan is known: E t*2 | t | t | H, 16 microbatches of 6 ms, a step of 114
/// ms.
class PlanScale : public ::testing::Test {
 protected:
  CommandResult plan(const Words& more, bool times = true) {
    Words words{"plan", "configs/runs/tiny.toml", "data.text=/no/such/folder", "model.layers=4", "train.threads=1", "--schedules",
                "1f1b", "train.microbatches=16",  "pipeline.ranks=4"};
    if (times) {
      words.emplace_back("--costs");
      words.push_back(folder_.write("costs.csv", "embedding,0,0,0\nlayer,2,2,2\nlayer 0-1,1,1,1,2\nhead,2,2,2\n"));
    }
    return run_millrace(joined(words, more));
  }

  /// The table's line for this number of replicas, with one space between its columns.
  static std::string line(const CommandResult& result, int replicas) {
    EXPECT_EQ(result.code, 0) << result.err;
    std::smatch match;
    const std::regex pattern("\n +(" + std::to_string(replicas) + " +" + std::to_string(4 * replicas) + " [^\n]*)");
    if (!std::regex_search(result.out, match, pattern)) return "no line of " + std::to_string(replicas) + " in:\n" + result.out;
    return std::regex_replace(match[1].str(), std::regex(" +"), " ");
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(PlanScale, WithoutNoiseReplicasAreAsFastAsOne) {
  const auto result = plan({"--replicas", "1,1024", "--error", "2", "--error-growth", "0.5"});
  // 16 · 4 · 64 tokens in 114 ms; 4,096 ranks are ten doublings beyond 4.
  EXPECT_EQ(line(result, 1), "1 4 114.00 111.72 to 116.28 0.00 0.00 0.00 - 100.0% 35929.8 100.0%");
  EXPECT_EQ(line(result, 1024), "1024 4096 114.00 106.02 to 121.98 0.00 0.00 0.00 - 100.0% 36792140.4 100.0%");
  expect_parts(result.out, {"off by 2 % at 4 ranks, 0.5 % more", "it does not run", "without --reduce-rate"});
  EXPECT_EQ(line(plan({"--replicas", "16", "--error", "2", "--error-growth", "0.5", "--error-ranks", "64"}), 16).substr(0, 31),
            "16 64 114.00 111.72 to 116.28 0");
  const auto without = plan({"--replicas", "2"});
  EXPECT_EQ(line(without, 2), "2 8 114.00 - 0.00 0.00 0.00 - 100.0% 71859.6 100.0%");
  expect_parts(without.out, {"without --error no band is shown"});
  EXPECT_EQ(plan({}).out.find("replicas"), std::string::npos);
}

TEST_F(PlanScale, NoiseReductionAndFailuresAddUp) {
  const Words words{"--replicas",   "1,256,4096", "--spread",          "0.02", "--jitter",           "0.02", "--optimizer",      "3",
                    "--mtbf-hours", "50000",      "--restart-minutes", "10",   "--snapshot-seconds", "2",    "--reduce-rate=1e8"};
  const auto result = plan(words);
  double before = 0;
  for (const int replicas : {1, 256, 4096}) {
    const auto text = line(result, replicas);
    std::smatch match;
    ASSERT_TRUE(std::regex_match(
        text, match, std::regex("[0-9]+ [0-9]+ ([0-9.]+) - ([0-9.]+) ([0-9.]+) ([0-9.]+) ([0-9.]+) (s|min|h) ([0-9.]+)% ([0-9.]+) .*%")))
        << text;
    const auto number = [&](std::size_t group) { return std::stod(match[group].str()); };
    EXPECT_NEAR(number(1), 114 + number(2) + number(3) + number(4) + 3, 0.021) << text;
    EXPECT_EQ(number(4) > 0, replicas > 1) << text;
    EXPECT_GT(number(1), before);
    before = number(1);
    // Young: √(2 · 2 s · 50,000 h ÷ ranks).
    const double seconds = std::sqrt(2 * 2 * 50000 * 3600.0 / (4 * replicas));
    const double unit = match[6] == "s" ? 1 : match[6] == "min" ? 60 : 3600;
    EXPECT_NEAR(number(5) * unit, seconds, 0.051 * unit) << text;
    // For that amount of work: one snapshot of 2 s, and the failures during both, each of which costs half of the time and ten
    // minutes.
    const double whole = seconds + 2, failures = whole / (50000 * 3600.0 / (4 * replicas));
    EXPECT_NEAR(number(7), 100 * seconds / (whole + failures * (whole / 2 + 600)), 0.051) << text;
    EXPECT_NEAR(number(8) * number(1) / (4096e3 * replicas * number(7) / 100), 1, 0.001) << "tokens/s " << text;
  }
  // The memory that is free on this machine changes from moment to moment, and nothing else does.
  const auto without_memory = [](const std::string& text) { return std::regex_replace(text, std::regex("memory +no limit[^\n]*\n"), ""); };
  ASSERT_NE(without_memory(result.out), result.out);
  EXPECT_EQ(without_memory(plan(words).out), without_memory(result.out)) << "the same every time";
  expect_parts(result.out, {"of 4096 replicas, stage 0 on rank 0 is summed last"});
}

TEST_F(PlanScale, SaysWhatIsWrong) {
  const auto refused = [&](const Words& words, const std::string& part, bool times = true) {
    expect_failure(plan(words, times), ExitCode::usage, {part});
  };
  refused({"--replicas", "2"}, "--replicas goes with times: --measure or --costs", false);
  refused({"--spread", "0.1"}, "--spread without --replicas, which it requires");
  refused({"--replicas", "1,,2"}, "--replicas has \"\", expected whole numbers from 1");
  refused({"--replicas", "1,x"}, "--replicas has \"x\"");
  refused({"--replicas", "0"}, "--replicas has \"0\"");
  refused({"--replicas", "2", "--spread", "2"}, "--spread 2, expected a number from 0 to 1");
  refused({"--replicas", "2", "--jitter", "much"}, "--jitter much, expected a number from 0 to 1");
  refused({"--replicas", "2", "--reduce-rate", "0"}, "--reduce-rate 0, expected a number above 0");
  refused({"--replicas", "2", "--reduce-latency", "1"}, "--reduce-latency without --reduce-rate");
  refused({"--replicas", "2", "--restart-minutes", "1"}, "--restart-minutes without --mtbf-hours");
  refused({"--replicas", "2", "--error-growth", "1"}, "--error-growth without --error");
  refused({"--replicas", "2", "--error", "-1"}, "--error -1, expected percent from 0 to 100");
  refused({"--replicas", "2", "--error", "1", "--error-ranks", "0"}, "--error-ranks 0, expected a number of ranks");
}

}  // namespace
}  // namespace millrace::tests
