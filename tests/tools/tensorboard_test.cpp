#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "kernels/base/check.hpp"
#include "tests/runtime/io/event_reader.hpp"
#include "tests/support/stories.hpp"
#include "tests/tools/run_command.hpp"
#include "tests/tools/text.hpp"

namespace millrace::tests {
namespace {

using Curve = std::map<std::int64_t, float>;

class Tensorboard : public ::testing::Test {
 protected:
  Tensorboard() { write_stories(folder_, 40); }

  [[nodiscard]] CommandResult train(const Words& more = {}) const {
    const Words words{"train",
                      "configs/runs/tiny.toml",
                      "run.directory=" + folder_ / "run",
                      "data.text=" + folder_ / "text",
                      "train.steps=8",
                      "train.warmup_steps=1",
                      "train.sequence=32",
                      "train.threads=1",
                      "evaluate.every=4",
                      "checkpoint.every=2",
                      "run.tensorboard=true"};
    return run_millrace(joined(words, more));
  }

  [[nodiscard]] std::vector<std::string> files() const {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "run/tensorboard")) paths.push_back(entry.path().string());
    std::ranges::sort(paths);
    return paths;
  }

  /// What TensorBoard would show: files in the order of their names; a START removes the steps from its own on.
  [[nodiscard]] std::map<std::string, Curve> shown() const {
    std::map<std::string, Curve> curves;
    for (const auto& path : files()) {
      for (const auto& event : runtime::testing::EventReader::read(read_file(path))) {
        if (event.starts)
          for (auto& [tag, curve] : curves) curve.erase(curve.lower_bound(event.step), curve.end());
        for (const auto& [tag, value] : event.scalars)
          EXPECT_TRUE(curves[tag].emplace(event.step, value).second) << tag << " of step " << event.step << " twice";
      }
    }
    return curves;
  }

  /// A field of metrics.jsonl by step, as floats.
  [[nodiscard]] Curve metrics(const std::string& field) const {
    Curve curve;
    std::istringstream lines(read_file(folder_ / "run/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);)
      if (const auto json = nlohmann::json::parse(line); json.contains(field)) curve[json["step"]] = json[field].get<float>();
    return curve;
  }

  void expect_the_metrics_shown() const {
    auto curves = shown();
    EXPECT_EQ(curves["train/loss"].size(), 8U);
    EXPECT_EQ(curves["train/loss"], metrics("loss"));
    EXPECT_EQ(curves["train/gradient_norm"], metrics("gradient_norm"));
    EXPECT_EQ(curves["train/learning_rate"], metrics("learning_rate"));
    EXPECT_EQ(curves["speed/tokens_per_second"], metrics("tokens_per_second"));
    EXPECT_EQ(curves["speed/flops_utilization"], metrics("flops_utilization"));
    EXPECT_EQ(curves["pipeline/bubble"], metrics("bubble"));
    EXPECT_EQ(curves["pipeline/wait"], metrics("wait"));
    EXPECT_EQ(curves["pipeline/data"], metrics("data"));
    EXPECT_EQ(curves["data/epoch"], metrics("epoch"));
    EXPECT_EQ(curves["data/tokens_seen"], metrics("tokens_seen"));
    EXPECT_EQ(curves["evaluate/loss"].size(), 2U);
    EXPECT_EQ(curves["evaluate/loss"], metrics("evaluation_loss"));
  }

  TemporaryFolder folder_;
};

TEST_F(Tensorboard, ShowsWhatTheMetricsSay) {
  ASSERT_EQ(train().code, 0);
  EXPECT_EQ(files().size(), 1U);
  expect_the_metrics_shown();
}

TEST_F(Tensorboard, IsNotWrittenUnlessAsked) {
  ASSERT_EQ(train({"run.tensorboard=false"}).code, 0);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run/tensorboard"));
}

TEST_F(Tensorboard, AResumedRunReplacesWhatTheKilledOneGotTo) {
  // Killed in the middle of the record of step 7: call 1 creates the file, and the evaluation after step 4 is a record too.
  const auto killed = train({"debug.fault=io:path=tensorboard:op=write:call=9:kill"});
  ASSERT_EQ(killed.code, 137) << killed.err;
  std::size_t torn = 0;
  EXPECT_EQ(runtime::testing::EventReader::read(read_file(files().at(0)), &torn).back().step, 6);
  EXPECT_GT(torn, 0U);
  ASSERT_EQ(train().code, 0);
  EXPECT_EQ(files().size(), 2U);
  expect_the_metrics_shown();
}

TEST_F(Tensorboard, AFullDiskEndsTheRunAsThatOfTheMetricsDoes) {
  const auto full = train({"debug.fault=io:path=tensorboard:op=write:call=4:enospc"});
  expect_failure(full, ExitCode::storage, {"tensorboard", "No space"});
  ASSERT_EQ(train().code, 0);
  expect_the_metrics_shown();
}

}  // namespace
}  // namespace millrace::tests
