#include <gtest/gtest.h>

#include "tests/support/temporary_folder.hpp"
#include "tests/training/command.hpp"
#include "tests/training/small_run.hpp"

// Runs whose routers' biases move towards even loads after every step, with choices beyond an expert's capacity dropped: in every layout
// the bits of one rank, and after an interruption those of the run without one.
namespace millrace::tests {
namespace {

using Words = std::vector<std::string>;

/// MaxText's experts in the smallest model.
Words with_biases(const Words& more) {
  Words words{"model.numerics=maxtext",
              "model.family=mixtral",
              "model.experts=6",
              "model.experts_per_token=2",
              "model.routed_score_func=sigmoid",
              "model.routed_bias=choice",
              "model.capacity_factor=1.25",
              "train.balance_loss=0.01",
              "train.routed_bias_update_rate=0.05"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(RouterBias, MovesAlikeInEveryLayout) {
  const Outcome expected = run_small(1, with_biases({}));
  ASSERT_EQ(expected.code, 0) << expected.said;
  struct Layout {
    int processes;
    Words words;
  };
  for (const auto& [processes, words] : {Layout{1, {"pipeline.ranks=4", "pipeline.schedule=zb-h1"}},
                                         Layout{2, {"pipeline.ranks=2", "pipeline.schedule=1f1b", "rematerialize.policy=full"}},
                                         Layout{1, {"pipeline.ranks=2", "pipeline.chunks=2", "pipeline.schedule=zb-v"}}}) {
    const Outcome found = run_small(processes, with_biases(words));
    ASSERT_EQ(found.code, 0) << found.said;
    EXPECT_EQ(found.lines, expected.lines) << words.back();
    EXPECT_EQ(found.hash, expected.hash) << words.back();
  }
  for (const char* other : {"train.routed_bias_update_rate=0", "model.capacity_factor=0"})
    EXPECT_NE(run_small(1, with_biases({other})).hash, expected.hash) << other;
}

TEST(RouterBias, IsResumedToTheBit) {
  const TemporaryFolder folder;
  write_small_texts(folder, "text");
  const auto train = [&](const std::string& run, const Words& environment) {
    Words words{
        "train",           "model.preset=tiny",  "data.text=" + folder / "text",  "train.steps=6",   "train.batch=2", "train.sequence=32",
        "train.threads=1", "checkpoint.every=2", "run.directory=" + folder / run, "pipeline.ranks=2"};
    const Words keys = with_biases({});
    words.insert(words.end(), keys.begin(), keys.end());
    return run_job(1, words, 120, environment);
  };
  const auto whole = train("whole", {});
  ASSERT_EQ(whole.code, 0) << whole.out << whole.err;
  ASSERT_NE(train("resumed", {"MILLRACE_FAULT=point=checkpoint.after_commit:hit=1:kill:rank=0"}).code, 0);
  const auto resumed = train("resumed", {});
  ASSERT_EQ(resumed.code, 0) << resumed.out << resumed.err;
  EXPECT_NE(resumed.out.find("resumes after step"), std::string::npos) << resumed.out;
  EXPECT_EQ(run_job(1, {"ckpt", "hash", folder / "resumed"}).out, run_job(1, {"ckpt", "hash", folder / "whole"}).out);
}

TEST(RouterBias, NeedsARouterWithABias) {
  const Outcome outcome = run_small(1, {"train.routed_bias_update_rate=0.1"});
  EXPECT_NE(outcome.code, 0);
  EXPECT_NE(outcome.said.find("no router of the model has a bias"), std::string::npos) << outcome.said;
}

}  // namespace
}  // namespace millrace::tests
