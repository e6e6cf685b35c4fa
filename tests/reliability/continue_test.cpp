// Runs that go on: with more steps, or as a new run that begins with the weights of another one.

#include <filesystem>
#include <fstream>
#include <sstream>

#include "kernels/base/check.hpp"
#include "tests/reliability/training.hpp"
#include "tests/tools/run_command.hpp"

namespace millrace::tests {
namespace {

using Keys = std::vector<std::string>;

class Continue : public ::testing::Test {
 protected:
  /// Runs to the end of `steps` steps in one process and expects success.
  JobEnd train(const std::string& directory, int steps, const Keys& more, int processes = 1) const {
    const auto end = attempt(directory, steps, more, processes);
    EXPECT_EQ(end.code, 0) << end.out << end.err;
    return end;
  }
  JobEnd attempt(const std::string& directory, int steps, const Keys& more, int processes = 1) const {
    return training_.run(processes, directory, with({"train.steps=" + std::to_string(steps), "train.warmup_steps=2"}, more));
  }
  void refuse(const std::string& directory, int steps, const Keys& more, const std::vector<std::string>& parts) const {
    const auto end = attempt(directory, steps, more);
    EXPECT_EQ(end.code, static_cast<int>(ExitCode::checkpoint)) << end.out << end.err;
    for (const auto& part : parts) EXPECT_TRUE(has(end.err, part)) << part << " is not in: " << end.err;
  }
  void expect_same(const std::string& one, const std::string& other) const {
    const auto first = training_.result(one), second = training_.result(other);
    EXPECT_EQ(first.hash, second.hash);
    EXPECT_EQ(first.metrics, second.metrics);
  }
  [[nodiscard]] std::string path(const std::string& directory) const { return training_.path(directory); }
  /// The exported weights of a run's newest checkpoint, as bytes.
  [[nodiscard]] std::string weights(const std::string& directory) const {
    const auto out = path(directory + "-exported");
    EXPECT_EQ(run_millrace({"ckpt", "export-hf", path(directory), out}).code, 0);
    return read_file(out + "/model.safetensors");
  }
  Training training_;
};

// -- more steps -----------------------------------------------------------------------------------------------------------------------

TEST_F(Continue, ARunThatGrowsHasTheBitsOfALongOne) {
  const std::vector<Keys> rates{{"train.decay=constant"},
                                {"train.decay=cosine", "train.schedule_steps=20"},
                                {"train.decay=wsd", "train.decay_steps=5", "train.schedule_steps=20"}};
  for (const Keys& rate : rates) {
    const std::string name = rate.front().substr(12);
    train(name + "-long", 20, rate);
    const auto first = train(name, 10, rate);
    EXPECT_TRUE(has(first.out, "step 10/10")) << first.out;
    const auto second = train(name, 20, with(rate, {"pipeline.ranks=2"}));
    EXPECT_TRUE(has(second.out, "resumes after step 10")) << second.out;
    expect_same(name, name + "-long");
  }
}

TEST_F(Continue, TheScheduleSpansTheRunUnlessItSaysOtherwise) {
  train("default", 20, {"train.decay=cosine"});
  train("spelled", 20, {"train.decay=cosine", "train.schedule_steps=20"});
  expect_same("default", "spelled");
}

// Beyond its decay a run cannot go on with another end, but with a checkpoint from before it can.
TEST_F(Continue, ACheckpointFromBeforeTheDecayGoesOn) {
  const Keys decay{"train.decay=wsd", "train.decay_steps=4", "train.warmup_steps=1", "checkpoint.every=4", "checkpoint.keep=10"};
  train("run", 12, decay);
  refuse("run", 20, decay, {"move the checkpoints after step 9 out of its folder"});
  std::filesystem::rename(path("run/checkpoints"), path("run/others"));
  std::filesystem::create_directory(path("run/checkpoints"));
  std::filesystem::rename(path("run/others/step-00000012"), path("run/checkpoints/step-00000012"));
  const auto alone = attempt("run", 20, decay);
  EXPECT_TRUE(has(alone.err, "other learning rates") && !has(alone.err, "out of its folder")) << "no other checkpoint is there\n"
                                                                                              << alone.err;
  std::filesystem::remove_all(path("run/checkpoints"));
  std::filesystem::rename(path("run/others"), path("run/checkpoints"));
  const auto end = train("run", 20, decay);
  EXPECT_TRUE(has(end.out, "resumes after step 8")) << end.out;
}

TEST_F(Continue, AScheduleThatContradictsFinishedStepsIsRefused) {
  train("run", 10, {"train.decay=cosine", "train.final_learning_rate=1e-4"});
  refuse("run", 20, {"train.decay=cosine", "train.final_learning_rate=1e-4"},
         {"step-00000010", "train.decay = cosine", "a run of 10 steps", "now it is for 20", "Set train.schedule_steps=10",
          "which is 0.0001 after step 10", "train.start_from"});
  // What it advises works, and says what rate the further steps have.
  const auto end = train("run", 12, {"train.decay=cosine", "train.final_learning_rate=1e-4", "train.schedule_steps=10"});
  EXPECT_TRUE(has(end.out, "step 12/12") && has(end.out, "lr 1.0e-04")) << end.out;
  EXPECT_FALSE(has(end.err, "nothing is learnt")) << end.err;
  // The other keys of the run are compared as ever.
  refuse("run", 12, {"train.decay=linear", "train.final_learning_rate=1e-4", "train.schedule_steps=10"}, {"train.decay was \"cosine\""});
}

TEST_F(Continue, AStableRateMayStayStableForLonger) {
  const Keys wsd{"train.decay=wsd", "train.decay_steps=2", "checkpoint.every=10"};
  train("long", 20, wsd);
  train("run", 12, wsd);
  refuse("run", 20, wsd, {"step-00000012", "step 12, made with"});
  std::filesystem::remove_all(path("run/checkpoints/step-00000012"));  // before its rate began to fall
  train("run", 20, wsd);
  expect_same("run", "long");
}

TEST_F(Continue, ARateOfZeroIsWarnedOf) {
  const auto end = train("run", 6, {"train.decay=cosine", "train.schedule_steps=4"});
  EXPECT_TRUE(has(end.err, "train.schedule_steps = 4 is below train.steps = 6: the learning rate is 0 from step 5 on")) << end.err;
}

TEST_F(Continue, AFinishedRunHasNothingLeftToDo) {
  train("run", 10, {"train.decay=constant"});
  const auto before = training_.result("run");
  for (const int processes : {1, 2}) {
    const auto again = train("run", 10, {"train.decay=constant"}, processes);
    EXPECT_TRUE(has(again.out, "step 10 of 10: nothing left to do")) << again.out;
    EXPECT_FALSE(has(again.out, "evaluation after step")) << again.out;
  }
  EXPECT_EQ(training_.result("run"), before);
  const auto fewer = attempt("run", 6, {"train.decay=constant"});
  EXPECT_EQ(fewer.code, static_cast<int>(ExitCode::config)) << fewer.out << fewer.err;
  EXPECT_TRUE(has(fewer.err, "train.steps = 6, but the run has made 10 steps")) << fewer.err;
}

// -- a new run from another one ---------------------------------------------------------------------------------------------------------

TEST_F(Continue, ANewRunBeginsWithTheWeightsOfAnotherInAnyLayout) {
  train("old", 6, {"train.decay=constant", "train.accumulators=2", "mesh.data=2", "mesh.shard=optimizer", "pipeline.ranks=2"}, 4);
  EXPECT_EQ(run_millrace({"ckpt", "export-hf", path("old"), path("exported")}).code, 0);
  const Keys rate{"train.decay=constant", "train.seed=3"};
  train("imported", 5, with(rate, {"model.preset=", "model.from=" + path("exported")}));
  const auto end = train("new", 5, with(rate, {"train.start_from=" + path("old")}));
  EXPECT_TRUE(has(end.out, "start     at step 0 with the weights of step 6 in " + path("old/checkpoints/step-00000006"))) << end.out;
  expect_same("new", "imported");
  train("folder", 5, with(rate, {"train.start_from=" + path("old/checkpoints/step-00000006"), "pipeline.ranks=2"}), 2);
  expect_same("folder", "new");
}

// On a text of one window every step has the same batch, so that a run that takes everything from another repeats the steps that this one
// would have made next. Only the count of updates, by which Adam corrects its moments, is not among the tensors that both have.
TEST_F(Continue, WithItsStateANewRunGoesOnWhereTheOtherEnded) {
  training_.folder().write("one/0.txt", "line 0 of a small story, repeated");
  const Keys one{"data.text=" + (training_.folder() / "one"), "data.held_out=0", "evaluate.every=0", "train.decay=constant",
                 "train.warmup_steps=0"};
  train("long", 14, one);
  train("old", 5, one);
  train("middle", 4, with(one, {"train.start_from=" + path("old"), "train.start_with=state"}));
  const auto source = "train.start_from=" + path("middle");
  const auto end = train("new", 3, with(one, {source, "train.start_with=state"}), 2);
  EXPECT_TRUE(has(end.out, "with the weights and optimizer states of step 4 in ")) << end.out;
  train("new", 5, with(one, {source, "train.start_with=state"}));
  const auto expected = weights("long");
  EXPECT_TRUE(weights("new") == expected) << "5 + 4 + 5 steps";
  train("anew", 5, with(one, {source}));
  EXPECT_FALSE(weights("anew") == expected) << "without the moments it is another run";
}

TEST_F(Continue, ANewRunDoesNotNeedTheOldOneAnyMore) {
  const Keys rate{"train.decay=constant"};
  train("old", 4, rate);
  const auto keys = with(rate, {"train.start_from=" + path("old")});
  train("long", 10, keys);
  train("new", 5, keys);
  EXPECT_EQ(run_millrace({"replay", path("new"), "--step", "1"}).code, 0);
  train("old", 8, rate);  // it may go on: the new run began with its step 4
  train("other", 4, rate);
  const std::string began = "this run began with the weights of " + path("old/checkpoints/step-00000004");
  refuse("new", 10, with(rate, {"train.start_from=" + path("other")}),
         {began + "; now train.start_from = " + path("other") + ", which is another state"});
  refuse("new", 10, rate, {began + "; now train.start_from is not given"});
  refuse("other", 10, keys, {"this run began with weights of its own, not those of another run; now train.start_from = " + path("old")});
  train("new", 7, keys);
  std::filesystem::remove_all(path("old"));
  train("new", 10, keys);
  EXPECT_EQ(training_.result("new").hash, training_.result("long").hash);
  const auto replay = run_millrace({"replay", path("new"), "--step", "1"});
  EXPECT_EQ(replay.code, static_cast<int>(ExitCode::checkpoint)) << replay.out;
  EXPECT_TRUE(has(replay.err, "train.start_from = " + path("old"))) << replay.err;
}

TEST_F(Continue, WhatDoesNotFitIsNamed) {
  const Keys rate{"train.decay=constant"};
  train("old", 2, rate);
  const auto from = with(rate, {"train.start_from=" + path("old")});
  refuse("new", 2, with(from, {"model.hidden_size=64"}), {"tensor 'model.embed_tokens.weight' is F32 [257, 32], expected F32 [257, 64]"});
  refuse("new", 2, with(from, {"model.layers=5"}), {"there is no tensor 'model.layers.4.", "expected F32 ["});
  refuse("new", 2, with(from, {"model.layers=3"}), {"it has a tensor 'model.layers.3.", "which this run's model does not have"});
  refuse("new", 2, with(from, {"train.start_with=state", "train.optimizer=muon"}),
         {"there is no tensor 'muon.", "train.start_with = state", "its optimizer states are adamw.m, adamw.v"});
  refuse("new", 2, with(from, {"train.start_with=state", "train.optimizer=sgd"}),
         {"train.start_with = state: its run has train.optimizer = \"adamw\", and this one \"sgd\""});
  refuse("new", 2, with(from, {"train.start_with=state", "train.first_moment=bf16"}), {"'adamw.m/", "is F32", "expected BF16"});
  refuse("new", 2, with(rate, {"train.start_from=" + path("nowhere")}), {"train.start_from = " + path("nowhere") + ": ", "no such folder"});
  train("new", 2, with(from, {"train.optimizer=muon"}));
}

}  // namespace
}  // namespace millrace::tests
