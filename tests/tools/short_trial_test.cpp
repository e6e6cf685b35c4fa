// A trial of a few steps, whose warm-up is shortened, and how it is trained further.

#include <gtest/gtest.h>

#include <sstream>

#include "kernels/base/check.hpp"
#include "tests/support/stories.hpp"
#include "tests/tools/run_command.hpp"
#include "tests/tools/text.hpp"

namespace millrace::tests {
namespace {

class ShortTrial : public ::testing::Test {
 protected:
  ShortTrial() { write_stories(folder_, 20); }

  /// Trains the smallest model, whose description has 50 steps with 5 of warm-up.
  [[nodiscard]] CommandResult train(const Words& more) const {
    return run_millrace(joined({"train", "configs/runs/tiny.toml", "run.directory=" + run(), "data.text=" + folder_ / "text",
                                "train.sequence=16", "train.batch=1", "train.threads=1", "evaluate.batches=1"},
                               more));
  }
  [[nodiscard]] std::string run() const { return folder_ / "run"; }

  /// The keys that a message names between `before` and `after`.
  static Words advised(const std::string& message, const std::string& before, const std::string& after) {
    const auto begin = message.find(before);
    const auto end = message.find(after, begin);
    if (begin == std::string::npos || end == std::string::npos) return {"nothing is advised in: " + message};
    std::istringstream text(message.substr(begin + before.size(), end - begin - before.size()));
    Words words;
    for (std::string word; text >> word;) words.push_back(word);
    return words;
  }

  TemporaryFolder folder_;
};

TEST_F(ShortTrial, ARefusalNamesTheKeysThatContinueIt) {
  ASSERT_EQ(train({"train.steps=3", "train.final_learning_rate=1e-4"}).code, 0);
  // With more steps, for which the warm-up is again shortened, and with those of the description, for which it is not.
  const auto longer = train({"train.steps=6", "train.final_learning_rate=1e-4"});
  expect_failure(longer, ExitCode::checkpoint, {"the rate was for a run of 3 steps", "now it is for 6", "train.start_from=" + run()});
  const auto whole = train({"train.final_learning_rate=1e-4"});
  expect_failure(whole, ExitCode::checkpoint, {"train.warmup_steps was 1, now 5 (what a file says is shortened where train.steps"});
  const Words keys{"train.schedule_steps=3", "train.warmup_steps=1"};
  EXPECT_EQ(advised(longer.err, "Set ", "to keep"), keys);
  EXPECT_EQ(advised(whole.err, "Set ", "to keep"), keys);
  const auto end = train(joined({"train.steps=6", "train.final_learning_rate=1e-4"}, keys));
  EXPECT_EQ(end.code, 0) << end.err;
  expect_parts(end.out, {"resumes after step 3", "step 6/6"});
}

TEST_F(ShortTrial, AFinishedOneSaysWhatContinuesIt) {
  const Words rate{"train.final_learning_rate=1e-4"};
  ASSERT_EQ(train(joined(rate, {"train.steps=3"})).code, 0);
  const auto again = train(joined(rate, {"train.steps=3"}));
  expect_parts(again.out, {"step 3 of 3: nothing left to do (" + run() + "; a larger train.steps with train.schedule_steps=3 ",
                           "continues it at the rate that it ended with, 0.0001)"});
  const auto keys = advised(again.out, "train.steps with ", "continues it");
  const auto end = train(joined(joined(rate, {"train.steps=5"}), keys));
  EXPECT_EQ(end.code, 0) << end.err;
  expect_parts(end.out, {"step 5/5"});
}

TEST_F(ShortTrial, AConstantRateNeedsItsWarmUpAlone) {
  const Words rate{"train.decay=constant"};
  ASSERT_EQ(train(joined(rate, {"train.steps=3"})).code, 0);
  const auto again = train(joined(rate, {"train.steps=3"}));
  const auto keys = advised(again.out, "train.steps with ", "continues it");
  EXPECT_EQ(keys, Words{"train.warmup_steps=1"});
  EXPECT_EQ(advised(train(rate).err, "Set ", "to keep"), keys);
  EXPECT_EQ(train(joined(joined(rate, {"train.steps=20"}), keys)).code, 0);
  const auto shorter = train(joined(rate, {"train.steps=1"}));
  expect_failure(shorter, ExitCode::config, {"train.steps = 1, but the run has made 20 steps", "expected 20 or more"});
}

// All of its steps were warm-up, so that with the warm-up of before any number of steps leaves their rates as they are.
TEST_F(ShortTrial, AWarmUpAloneGoesOnByTheRateOfTheWholeRun) {
  ASSERT_EQ(train({"train.steps=1"}).code, 0);
  EXPECT_EQ(advised(train({"train.steps=1"}).out, "a larger train.steps with ", "continues it)"), Words{"train.warmup_steps=1"});
  const auto whole = train({});
  expect_failure(whole, ExitCode::checkpoint, {"to keep the rates of the steps that were made"});
  EXPECT_EQ(advised(whole.err, "Set ", "to keep"), Words{"train.warmup_steps=1"});
  EXPECT_EQ(train({"train.warmup_steps=1"}).code, 0);
}

TEST_F(ShortTrial, ARateThatEndedAtZeroNeedsANewRun) {
  ASSERT_EQ(train({"train.steps=3"}).code, 0);
  const auto again = train({"train.steps=3"});
  expect_parts(again.out, {"its learning rate has ended at 0: train.start_from=" + run() + " and another run.directory begin a run"});
  const auto next = train({"train.steps=3", "train.start_from=" + run(), "run.directory=" + folder_ / "next"});
  EXPECT_EQ(next.code, 0) << next.err;
}

}  // namespace
}  // namespace millrace::tests
