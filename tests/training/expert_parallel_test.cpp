#include <gtest/gtest.h>

#include "tests/support/temporary_folder.hpp"
#include "tests/training/command.hpp"
#include "tests/training/expert_models.hpp"
#include "tests/training/small_run.hpp"

// Ranks that share the experts of their layers have the bits of one rank that has them all. A sample is here, all families and layouts are
// in expert_parallel_full_test.cpp.
namespace millrace::tests {
namespace {

using Words = std::vector<std::string>;

void expect_the_numbers_of_one_rank(const std::string& model, int processes, const Words& layout) {
  const Outcome expected = run_small(1, expert_run(model, {})), found = run_small(processes, expert_run(model, layout));
  ASSERT_EQ(expected.code, 0) << expected.said;
  ASSERT_EQ(found.code, 0) << found.said;
  EXPECT_EQ(found.lines, expected.lines);
  EXPECT_EQ(found.hash, expected.hash);
}

TEST(ExpertParallel, TwoOwnersInOneProcess) { expect_the_numbers_of_one_rank("mixtral", 1, {"mesh.expert=2"}); }

TEST(ExpertParallel, CopiesThatDivideTheUpdate) {
  expect_the_numbers_of_one_rank("mixtral", 2, {"mesh.expert=2", "mesh.shard=optimizer", "pipeline.ranks=2"});
  expect_the_numbers_of_one_rank("deepseek_v3", 2,
                                 {"mesh.expert=2", "mesh.shard=parameters", "pipeline.ranks=2", "pipeline.weave=neighbours"});
}

// Ranks of two processes are in groups of both kinds, with other members in each: what one sends as gradients another must not take for
// rows.
TEST(ExpertParallel, GroupsOfCopiesAndOfOwnersAreApart) {
  const Words words{"train.expert_accumulators=2", "train.steps=6"};
  const auto run = [&](int processes, Words more) {
    more.insert(more.end(), words.begin(), words.end());
    const Outcome outcome = run_small(processes, expert_run("mixtral", more));
    EXPECT_EQ(outcome.code, 0) << outcome.said;
    return outcome;
  };
  const Outcome one = run(1, {}), four = run(2, {"mesh.data=4", "mesh.expert=2", "mesh.shard=optimizer", "pipeline.ranks=1"});
  EXPECT_EQ(four.lines, one.lines);
  EXPECT_EQ(four.hash, one.hash);
}

TEST(ExpertParallel, FourOwnersInTwoProcesses) { expect_the_numbers_of_one_rank("deepseek_v3", 2, {"mesh.expert=4"}); }

TEST(ExpertParallel, InAPipelineWithSplitBackward) {
  expect_the_numbers_of_one_rank("qwen3_moe", 4, {"mesh.expert=2", "pipeline.ranks=2", "pipeline.schedule=zb-v", "pipeline.chunks=2"});
}

TEST(ExpertParallel, WovenPairsInABf16Pipeline) {
  expect_the_numbers_of_one_rank(
      "gpt_oss", 2,
      {"mesh.expert=2", "pipeline.ranks=2", "pipeline.schedule=1f1b", "pipeline.weave=neighbours", "rematerialize.policy=full"});
}

// A layer's experts are a stage, and its attention is in the one before.
TEST(ExpertParallel, ExpertsApartFromTheirAttention) {
  expect_the_numbers_of_one_rank("mixtral", 2, {"mesh.expert=2", "pipeline.ranks=4", "pipeline.layout=E t a | f | a | f t H"});
  expect_the_numbers_of_one_rank(
      "deepseek_v3", 1,
      {"mesh.expert=2", "pipeline.ranks=2", "pipeline.chunks=2", "pipeline.schedule=zb-v", "pipeline.layout=E t a | f a | f a | f H"});
}

// A quarter of the rows of an even choice, in a pipeline with split backward whose actions are woven; groups are longer than a run of rows.
TEST(ExpertParallel, InRounds) {
  const Words large{"train.batch=10", "train.steps=3", "evaluate.every=2", "train.warmup_steps=1"};
  const auto with = [&](Words layout) {
    layout.insert(layout.end(), large.begin(), large.end());
    return layout;
  };
  const Outcome expected = run_small(1, expert_run("gpt_oss", with({}))),
                found = run_small(2, expert_run("gpt_oss", with({"mesh.expert=2", "pipeline.ranks=2", "pipeline.schedule=zb-h1",
                                                                 "pipeline.weave=neighbours", "experts.capacity=0.25"})));
  ASSERT_EQ(expected.code, 0) << expected.said;
  ASSERT_EQ(found.code, 0) << found.said;
  EXPECT_EQ(found.lines, expected.lines);
  EXPECT_EQ(found.hash, expected.hash);
  EXPECT_NE(found.said.find(" more rounds | "), std::string::npos) << found.said;
  EXPECT_NE(found.said.find("rounds of exchanges beside the first of each microbatch in layers."), std::string::npos) << found.said;
}

// Numbers that depend on who owns an expert would show here, in every tensor of every operation.
TEST(ExpertParallel, RecordsTheTensorsOfOneRank) {
  const TemporaryFolder folder;
  write_small_texts(folder, "text");
  for (const auto& [name, layout] :
       std::vector<std::pair<std::string, Words>>{{"one", {}},
                                                  {"two", {"mesh.expert=2", "pipeline.ranks=2", "pipeline.weave=neighbours"}},
                                                  {"rounds", {"mesh.expert=2", "experts.capacity=0.25"}}}) {
    Words words = expert_run("mixtral", layout);
    words.insert(words.begin(), {"train", "model.preset=tiny", "data.text=" + folder / "text", "train.batch=2", "train.sequence=32",
                                 "train.threads=1", "train.steps=2", "run.record=hashes", "run.directory=" + folder / name});
    const auto job = run_job(1, words);
    ASSERT_EQ(job.code, 0) << job.out << job.err;
  }
  for (const char* other : {"two", "rounds"}) {
    const auto compared = run_job(1, {"compare", folder / "one", folder / other});
    EXPECT_EQ(compared.code, 0) << compared.out << compared.err;
    const bool says_why = compared.out.find("values of rounds are not recorded (experts.capacity)") != std::string::npos;
    EXPECT_EQ(says_why, std::string(other) == "rounds") << compared.out;
  }
}

// A difference is shown with values, whoever has computed it.
TEST(ExpertParallel, ShowsTheValuesOfAnOwnersRows) {
  const TemporaryFolder folder;
  write_small_texts(folder, "text");
  const auto train = [&](const std::string& name, const Words& more) {
    Words words = expert_run("mixtral", more);
    words.insert(words.begin(), {"train", "model.preset=tiny", "data.text=" + folder / "text", "train.batch=2", "train.sequence=32",
                                 "train.threads=1", "train.steps=2", "run.record=hashes", "run.directory=" + folder / name});
    const auto job = run_job(1, words);
    EXPECT_EQ(job.code, 0) << job.out << job.err;
  };
  train("one", {});
  // Two owners of each expert add their sums, and one rank has one sum: the last bits of weight gradients differ.
  train("four", {"mesh.data=4", "mesh.expert=2", "train.expert_accumulators=2"});
  const auto compared = run_job(1, {"compare", folder / "one", folder / "four"});
  EXPECT_EQ(compared.code, 1) << compared.out << compared.err;
  EXPECT_NE(compared.out.find("#expert"), std::string::npos) << compared.out;
  EXPECT_EQ(compared.out.find("did not compute this tensor"), std::string::npos) << compared.out;
}

TEST(ExpertParallel, RefusesSumsThatOwnersDoNotHave) {
  const Outcome refused = run_small(1, expert_run("mixtral", {"mesh.expert=2", "train.expert_accumulators=2"}));
  EXPECT_NE(refused.code, 0);
  EXPECT_NE(refused.said.find("train.expert_accumulators = 2, expected 1"), std::string::npos) << refused.said;
  EXPECT_NE(refused.said.find("nearest legal: mesh.expert = 1, or train.expert_accumulators = 1 for a new run"), std::string::npos)
      << refused.said;
}

}  // namespace
}  // namespace millrace::tests
