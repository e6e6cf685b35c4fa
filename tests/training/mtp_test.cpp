#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/temporary_folder.hpp"
#include "tests/training/command.hpp"
#include "tests/training/small_run.hpp"

// Modules of multi-token prediction through the whole command: training in every kind of layout with a table of several uses, evaluation,
// export and import.
namespace millrace::tests {
namespace {

using Words = std::vector<std::string>;

class MtpRun : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    one_ = train("one", 1, {"pipeline.ranks=1"});
  }
  static void TearDownTestSuite() { delete folder_; }

  static std::string directory(const std::string& name) { return *folder_ / name; }
  static Words described(const Words& more) {
    Words words{"configs/runs/tiny.toml", "model.mtp_layers=2",   "model.tie_word_embeddings=true",
                "data.text=docs",         "data.held_out=3",      "evaluate.batches=4",
                "evaluate.every=2",       "sample.tokens=8",      "train.steps=4",
                "train.threads=1",        "train.batch=2",        "train.sequence=32",
                "train.warmup_steps=1",   "train.microbatches=8", "train.clip=0.5",
                "checkpoint.every=2"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  static JobResult train(const std::string& name, int processes, const Words& more) {
    Words words{"train", "run.directory=" + directory(name)};
    for (const auto& word : described(more)) words.push_back(word);
    return run_job(processes, words, 120);
  }
  static std::string hash(const std::string& name) { return run_job(1, {"ckpt", "hash", directory(name)}).out; }

  static inline TemporaryFolder* folder_ = nullptr;
  static inline JobResult one_;
};

TEST_F(MtpRun, HasTheBitsOfOneRankInEveryLayout) {
  ASSERT_EQ(one_.code, 0) << one_.out << one_.err;
  struct Layout {
    std::string name;
    int processes;
    Words words;
  };
  const std::vector<Layout> layouts{
      {"with_the_head", 2, {"pipeline.ranks=2", "pipeline.schedule=1f1b"}},
      {"alone", 4, {"pipeline.ranks=4", "pipeline.layout=E t*4 | M | M | H"}},
      {"with_layers", 1, {"pipeline.ranks=3", "pipeline.schedule=zb-h1", "pipeline.layout=E t | t*3 M | M H", "rematerialize.policy=full"}},
      {"v_shape", 2, {"pipeline.ranks=2", "pipeline.chunks=2", "pipeline.schedule=zb-v", "pipeline.layout=E t*4 | M | M | H"}},
      {"own_stages", 1, {"pipeline.ranks=8", "pipeline.schedule=gpipe"}},
  };
  const std::string expected = hash("one");
  ASSERT_EQ(expected.size(), 33U) << expected;
  for (const Layout& layout : layouts) {
    const auto run = train(layout.name, layout.processes, layout.words);
    ASSERT_EQ(run.code, 0) << layout.name << ": " << run.err;
    EXPECT_EQ(hash(layout.name), expected) << layout.name;
  }
}

/// Both replicas have stages of modules alone: sums are exchanged between the replicas first, then between the uses of the table.
TEST_F(MtpRun, TwoReplicasHaveTheBitsOfTwoAccumulators) {
  ASSERT_EQ(train("accumulators", 1, {"pipeline.ranks=1", "train.accumulators=2"}).code, 0);
  const auto run = train("replicas", 2, {"pipeline.ranks=4", "pipeline.schedule=dualpipe", "pipeline.layout=E t*4 | M | M | H"});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(hash("replicas"), hash("accumulators"));
  EXPECT_NE(hash("replicas"), hash("one"));
}

TEST_F(MtpRun, ShowsTheLossOfModulesAndWhatIsAccepted) {
  EXPECT_NE(one_.out.find(" | lm_loss "), std::string::npos) << one_.out;
  EXPECT_NE(one_.out.find(" | mtp_loss "), std::string::npos) << one_.out;
  EXPECT_NE(one_.out.find(" | mtp_acceptance "), std::string::npos) << one_.out;
  // Steps do not compute what is accepted.
  const auto step = one_.out.find("step 1/4");
  EXPECT_EQ(one_.out.substr(step, one_.out.find('\n', step) - step).find("mtp_acceptance"), std::string::npos) << one_.out;
}

/// An export has the modules under DeepSeek-V3's names, with the tables that these repeat. It is read with its modules and without.
TEST_F(MtpRun, ExportsAndImportsModules) {
  const std::string exported = directory("exported");
  ASSERT_EQ(run_job(1, {"ckpt", "export-hf", directory("one"), exported}).code, 0);
  const Words more{"model.preset=", "model.from=" + exported, "train.steps=1", "train.warmup_steps=0"};
  Words with = more, without = more;
  without.emplace_back("model.mtp_layers=0");
  with.emplace_back("model.mtp_layers=2");
  const auto again = train("again", 1, with);
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.out.find(" | mtp_loss "), std::string::npos) << again.out;
  const auto plain = train("plain", 1, without);
  EXPECT_EQ(plain.code, 0) << plain.err;
  EXPECT_EQ(plain.out.find("mtp_loss"), std::string::npos) << plain.out;
  Words too_many = more;
  too_many.emplace_back("model.mtp_layers=3");
  const auto missing = train("missing", 1, too_many);
  EXPECT_NE(missing.code, 0);
  EXPECT_NE(missing.err.find("model.layers.6.eh_proj.weight"), std::string::npos) << missing.err;
}

TEST_F(MtpRun, RefusesWhatDoesNotFit) {
  const auto refused = [&](const Words& words, const std::string& says) {
    const auto run = train("refused", 1, words);
    EXPECT_NE(run.code, 0) << says;
    EXPECT_NE(run.err.find(says), std::string::npos) << run.err;
  };
  refused({"pipeline.ranks=9"}, "4 layers and 2 modules that predict further tokens, expected at most 8");
  refused({"pipeline.ranks=2", "pipeline.layout=E t*4 | M H"}, "has 1 modules of multi-token prediction (M), the model has 2");
  refused({"train.mtp_eval_target_module=3"}, "expected at most model.mtp_layers = 2");
  refused({"model.mtp_layers=0", "train.mtp_loss=0.3"}, "train.mtp_loss = 0.3, but the model has no modules");
}

}  // namespace
}  // namespace millrace::tests
