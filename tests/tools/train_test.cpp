#include <gtest/gtest.h>

#include <filesystem>

#include "kernels/base/check.hpp"
#include "tests/support/stories.hpp"
#include "tests/tools/run_command.hpp"
#include "tests/tools/text.hpp"

namespace millrace::tests {
namespace {

class Train : public ::testing::Test {
 protected:
  Train() { write_stories(folder_, 40); }

  /// Four steps of the smallest model, on two ranks in one process.
  [[nodiscard]] CommandResult train(const Words& more = {}, const std::string& before = "") const {
    const Words words{"train",
                      "configs/runs/tiny.toml",
                      "run.directory=" + folder_ / "run",
                      "data.text=" + folder_ / "text",
                      "train.steps=4",
                      "train.warmup_steps=1",
                      "train.sequence=32",
                      "pipeline.ranks=2",
                      "train.threads=1"};
    return run_millrace(joined(words, more), before);
  }

  TemporaryFolder folder_;
};

TEST_F(Train, ARunCanBeCheckedHashedExportedAndTrainedOn) {
  const auto run = train();
  ASSERT_EQ(run.code, 0) << run.err;
  expect_parts(run.out, {"step 4/4"});
  const auto verified = run_millrace({"ckpt", "verify", folder_ / "run"});
  EXPECT_EQ(verified.code, 0) << verified.out;
  const auto hash = run_millrace({"ckpt", "hash", folder_ / "run"});
  EXPECT_EQ(hash.out.size(), 33U) << hash.out;
  expect_parts(verified.out, {hash.out.substr(0, 32)});
  ASSERT_EQ(run_millrace({"ckpt", "export-hf", folder_ / "run", folder_ / "hf"}).code, 0);
  const auto on = train({"model.preset=", "model.from=" + folder_ / "hf", "run.directory=" + folder_ / "second"});
  EXPECT_EQ(on.code, 0) << on.err;
}

TEST_F(Train, ARunIsKnownWhereAModelOrACheckpointIsExpected) {
  ASSERT_EQ(train().code, 0);
  const auto run = folder_ / "run", checkpoint = run + "/checkpoints/step-00000004";
  for (const auto& path : {run, checkpoint})
    for (const Words& words : {Words{"convert", path, folder_ / "out"}, Words{"parity", path}})
      expect_failure(run_millrace(words), ExitCode::model,
                     {path + ": a ", " of millrace, expected the folder of a model", "`millrace ckpt export-hf " + path + " OUT`"});
  expect_failure(train({"model.preset=", "model.from=" + run, "run.directory=" + folder_ / "second"}), ExitCode::model,
                 {"model.from = " + run + ": a run of millrace", "train.start_from=" + run, "ckpt export-hf"});
  const auto script = folder_.write("script", "where\nquit\n");
  const auto debugged = run_millrace({"debug", "configs/runs/tiny.toml", "data.text=" + folder_ / "text", "train.steps=6",
                                      "train.warmup_steps=1", "train.schedule_steps=4", "train.sequence=32", "pipeline.ranks=2",
                                      "train.threads=1", "--checkpoint", run, "--script", script});
  EXPECT_EQ(debugged.code, 0) << debugged.err;
  expect_parts(debugged.out, {"step 5"});
}

TEST_F(Train, TheStateDoesNotDependOnTheSchedule) {
  ASSERT_EQ(train().code, 0);
  ASSERT_EQ(train({"run.directory=" + folder_ / "other", "pipeline.schedule=zb-h1", "pipeline.ranks=3"}).code, 0);
  EXPECT_EQ(run_millrace({"ckpt", "hash", folder_ / "run"}).out, run_millrace({"ckpt", "hash", folder_ / "other"}).out);
}

TEST_F(Train, GoesOnWhereNothingCanBeWrittenAndSaysSoInItsCode) {
  const auto run = train({}, "sh -c 'exec \"$@\" > /dev/full 2>&1' sh");
  EXPECT_EQ(run.code, static_cast<int>(ExitCode::storage));
  EXPECT_EQ(run_millrace({"ckpt", "verify", folder_ / "run"}).code, 0);
}

TEST_F(Train, AnotherSeedIsAnotherRun) {
  ASSERT_EQ(train().code, 0);
  expect_failure(train({"train.seed=2", "train.clip=3"}), ExitCode::checkpoint, {"train.seed was 1, now 2", "train.clip was 1.0, now 3.0"});
}

TEST_F(Train, AKeyThatOverrulesTheModelsFileIsNamedWithItsPlace) {
  ASSERT_EQ(train().code, 0);
  ASSERT_EQ(run_millrace({"ckpt", "export-hf", folder_ / "run", folder_ / "hf"}).code, 0);
  const auto file = folder_.write("on.toml", "[model]\nfrom = \"" + folder_ / "hf" + "\"\nlayers = 2\n[data]\ntext = \"" +
                                                 folder_ / "text" + "\"\n[train]\nsteps = 2\nsequence = 32\n");
  expect_failure(
      run_millrace({"train", file}), ExitCode::model,
      {"18 unexpected", "\nkeys overrule model.from = " + folder_ / "hf" + ", but the weights are its own; remove the keys of sizes:\n  ",
       "on.toml:3:1: model.layers = 2 overrules 4\n"});
  expect_failure(run_millrace({"train", file, "model.layers=4", "model.intermediate_size=96"}), ExitCode::model,
                 {"command line: model.intermediate_size = 96 overrules 80\n", "of another shape"});
  const auto equal = run_millrace({"train", file, "model.layers=4", "model.max_position_embeddings=512"});
  EXPECT_EQ(equal.code, 0) << "no weight depends on it: " << equal.err;
}

TEST_F(Train, MistakesEndBeforeAnythingIsWritten) {
  expect_failure(train({"train.stepz=4"}), ExitCode::config, {"unknown key train.stepz"});
  expect_failure(train({"data.text=" + folder_ / "nowhere"}), ExitCode::data, {folder_ / "nowhere"});
  expect_failure(train({"model.preset=", "model.from=" + folder_ / "nowhere"}), ExitCode::model, {folder_ / "nowhere"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run/checkpoints/step-00000004"));
}

}  // namespace
}  // namespace millrace::tests
