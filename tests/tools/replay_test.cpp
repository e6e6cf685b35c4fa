#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "kernels/base/check.hpp"
#include "tests/tools/run_command.hpp"
#include "tests/tools/text.hpp"

namespace millrace::tests {
namespace {

/// A finished run of six steps on four ranks, with checkpoints of steps 2, 4 and 6.
class Replay : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    const auto result = run_millrace({"train", "configs/runs/tiny.toml", "pipeline.ranks=4", "train.threads=1", "train.steps=6",
                                      "train.warmup_steps=1", "data.text=docs", "data.held_out=0", "sample.tokens=0", "checkpoint.every=2",
                                      "checkpoint.keep=4", "run.directory=" + directory()});
    ASSERT_EQ(result.code, 0) << result.err;
  }
  static void TearDownTestSuite() { delete folder_; }
  static std::string directory() { return *folder_ / "run"; }
  static CommandResult replay(const Words& more) { return run_millrace(joined({"replay", directory()}, more)); }

 private:
  static inline TemporaryFolder* folder_ = nullptr;
};

TEST_F(Replay, AStepFromTheNearestCheckpointHasTheRecordedBits) {
  const auto first = replay({"--step", "2"});
  EXPECT_EQ(first.code, 0) << first.err;
  expect_parts(first.out, {"from the run's beginning, 4 ranks, schedule 1f1b", "step 1 | loss ", "step 2 | loss ", "as recorded"});
  const auto last = replay({"--step", "6"});
  EXPECT_EQ(last.code, 0) << last.err;
  expect_parts(last.out, {"from the checkpoint of step 4", "step 5 | loss ", "step 6 | loss ", "as recorded"});
  EXPECT_EQ(last.out.find("step 4 |"), std::string::npos);
}

TEST_F(Replay, OtherLayoutsHaveThemToo) {
  for (const Words& layout : {Words{"pipeline.ranks=1"}, Words{"pipeline.ranks=2", "pipeline.chunks=2", "pipeline.schedule=zb-v"}}) {
    const auto result = replay(joined({"--step", "5"}, layout));
    EXPECT_EQ(result.code, 0) << result.err << result.out;
    expect_parts(result.out, {"step 5 | loss ", "as recorded"});
  }
}

TEST_F(Replay, EveryStageAloneDoesWhatItDidInThePipeline) {
  for (const std::string schedule : {"1f1b", "zb-h1"}) {
    for (const std::string stage : {"0", "1", "3"}) {
      const auto result = replay({"--step", "3", "--stage", stage, "--repeat", "3", "pipeline.schedule=" + schedule});
      EXPECT_EQ(result.code, 0) << result.err << result.out;
      expect_parts(result.out, {"F  12 times, median ", schedule == "1f1b" ? "B  12 times" : "W  12 times",
                                "stage " + stage + " alone: ", "outputs and gradients as in the whole pipeline"});
    }
  }
}

TEST_F(Replay, TellsWhenTheRecordSaysOtherwise) {
  const auto path = directory() + "/metrics.jsonl";
  const auto text = read_file(path);
  auto changed = text;
  const auto at = changed.find("loss_hex\":\"0x1.", changed.find("{\"step\":5")) + 15;
  changed[at] = changed[at] == '0' ? '1' : '0';
  std::ofstream(path) << changed;
  const auto result = replay({"--step", "5"});
  std::ofstream(path) << text;
  EXPECT_EQ(result.code, 1) << result.out;
  expect_parts(result.out, {"step 5 | loss ", "DIFFERS from the recorded loss"});
}

TEST_F(Replay, RefusesWhatIsNoStepOfTheRun) {
  expect_failure(replay({}), ExitCode::usage, {"expected RUN_DIRECTORY --step N"});
  expect_failure(replay({"--step", "7"}), ExitCode::usage, {"7", "6"});
  expect_failure(replay({"--step", "5", "--repeat", "3"}), ExitCode::usage, {"--repeat without --stage"});
  expect_failure(replay({"--step", "5", "--stage", "4"}), ExitCode::usage, {"4", "3"});
  expect_failure(replay({"--step", "5", "train.dtype=bf16"}), ExitCode::checkpoint, {"train.dtype"});
  expect_failure(
      replay({"--step", "5", "train.seed=2", "train.clip=3"}), ExitCode::checkpoint,
      {"run.toml: train.clip = 3.0 (from command line), but the run had 1.0; train.seed = 2 (from command line), but the run had 1"});
  expect_failure(replay({"--step", "5", "train.steps=7"}), ExitCode::checkpoint,
                 {"train.steps = 7 (from command line), but the run had 6"});
  expect_failure(run_millrace({"replay", "/no/such/run", "--step", "1"}), ExitCode::usage, {"/no/such/run: not a run directory"});
}

// Without a checkpoint nothing else knows what the numbers of the run depend on.
TEST_F(Replay, RefusesOtherNumbersOfARunWithoutCheckpoints) {
  const auto copy = directory() + "-bare";
  std::filesystem::create_directories(copy);
  for (const char* file : {"/run.toml", "/metrics.jsonl"}) std::filesystem::copy_file(directory() + file, copy + file);
  const auto with = [&](const std::string& key) { return run_millrace({"replay", copy, "--step", "1", key}); };
  for (const std::string key : {"train.learning_rate=0.1", "train.seed=2", "model.layers=3", "data.packing=false"})
    expect_failure(with(key), ExitCode::checkpoint, {key.substr(0, key.find('=')) + " = ", "(from command line), but the run had "});
  expect_failure(run_millrace({"replay", copy, "--step", "1", "pipeline.schedule=dualpipe", "pipeline.ranks=2"}), ExitCode::checkpoint,
                 {"train.accumulators = 2 (from the layout), but the run had 1"});
  const auto same = with("pipeline.ranks=2");
  EXPECT_EQ(same.code, 0) << same.err;
  expect_parts(same.out, {"step 1 | loss ", "as recorded"});
}

}  // namespace
}  // namespace millrace::tests
