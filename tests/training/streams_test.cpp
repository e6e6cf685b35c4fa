#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/temporary_folder.hpp"
#include "tests/training/command.hpp"

// A model whose stages hand on four tensors of three types (tests/layers/streams_family.hpp), through the whole command: training in every
// kind of layout, recordings, replays of one stage, and the debugger.
namespace millrace::tests {
namespace {

using Words = std::vector<std::string>;

class StreamsRun : public ::testing::Test {
 protected:
  /// Three recorded steps on one rank; the other runs have its bits.
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    train("one", 1, {"pipeline.ranks=1"});
  }
  static void TearDownTestSuite() { delete folder_; }

  static std::string directory(const std::string& name) { return *folder_ / name; }
  static JobResult command(const Words& words, int processes = 1) {
    return run_job(processes, words, 120, {}, "tests/training/millrace_with_streams");
  }
  static Words described(const Words& more) {
    Words words{"configs/runs/tiny.toml", "model.family=streams", "model.layers=6",  "data.text=docs",    "data.held_out=0",
                "sample.tokens=0",        "train.steps=3",        "train.threads=1", "train.batch=2",     "train.sequence=32",
                "train.warmup_steps=1",   "train.microbatches=4", "train.clip=0.5",  "checkpoint.every=1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  static void train(const std::string& name, int processes, const Words& more) {
    Words words{"train", "--record", "hashes", "run.directory=" + directory(name)};
    for (const auto& word : described(more)) words.push_back(word);
    const auto run = command(words, processes);
    ASSERT_EQ(run.code, 0) << name << ": " << run.err;
  }
  static std::string hash(const std::string& name) { return command({"ckpt", "hash", directory(name)}).out; }

  static inline TemporaryFolder* folder_ = nullptr;
};

TEST_F(StreamsRun, HasTheBitsOfOneRankInEveryLayout) {
  struct Layout {
    std::string name;
    int processes;
    Words words;
  };
  const std::vector<Layout> layouts{
      {"1f1b", 1, {"pipeline.ranks=2", "pipeline.schedule=1f1b"}},
      {"zb_v", 2, {"pipeline.ranks=2", "pipeline.chunks=2", "pipeline.schedule=zb-v"}},
      {"zb_h1", 3, {"pipeline.ranks=3", "pipeline.schedule=zb-h1"}},
      {"uneven", 2, {"pipeline.ranks=4", "pipeline.schedule=zb-h1", "pipeline.layout=E t*2 | | t*4 | H", "rematerialize.policy=full"}},
  };
  const std::string expected = hash("one");
  ASSERT_EQ(expected.size(), 33U) << expected;
  for (const auto& layout : layouts) {
    train(layout.name, layout.processes, layout.words);
    EXPECT_EQ(hash(layout.name), expected) << layout.name;
    const auto compared = command({"compare", directory("one"), directory(layout.name)});
    EXPECT_EQ(compared.code, 0) << layout.name << ": " << compared.out << compared.err;
  }
  train("other", 1, {"pipeline.ranks=2", "train.seed=7"});
  EXPECT_NE(hash("other"), expected) << "a test that compares hashes must be able to fail";
}

TEST_F(StreamsRun, EveryStageAloneDoesWhatItDidInThePipeline) {
  for (const Words& layout : {Words{"pipeline.ranks=2", "pipeline.chunks=2", "pipeline.schedule=zb-v"},
                              Words{"pipeline.ranks=4", "pipeline.schedule=1f1b", "pipeline.layout=E t*2 | | t*4 | H"}}) {
    for (int stage = 0; stage < 4; ++stage) {
      Words words{"replay", directory("one"), "--step", "2", "--stage", std::to_string(stage), "--repeat", "2"};
      words.insert(words.end(), layout.begin(), layout.end());
      const auto replayed = command(words);
      EXPECT_EQ(replayed.code, 0) << stage << ": " << replayed.out << replayed.err;
      EXPECT_NE(replayed.out.find("outputs and gradients as in the whole pipeline"), std::string::npos) << replayed.out;
    }
  }
}

TEST_F(StreamsRun, TheDebuggerNamesPorts) {
  // On one rank, whose last action is the one at hand.
  const auto script = folder_->write("script",
                                     "until 1F0\nstep\nprint boundary_in\nprint boundary_in.side\nprint boundary_in.classes\nqueue\n"
                                     "until 1B0\nstep\nprint gradient_out.early\nuntil 0B0\nstep\nprint gradient_in.side\n");
  Words words{"debug", "--script", script};
  const Words layout{"pipeline.chunks=2", "pipeline.schedule=looped-bfs", "pipeline.layout=E t | t*5 H"};
  for (const auto& word : described(layout)) words.push_back(word);
  const auto session = command(words);
  ASSERT_EQ(session.code, 0) << session.out << session.err;
  // A microbatch has 64 tokens; hidden and early are 32 features wide, side is 16.
  for (const char* part :
       {"boundary_in  f32 [64, 32]  of 1F0", "boundary_in.side  f32 [64, 16]  of 1F0", "boundary_in.classes  i32 [64]  of 1F0", "20736",
        "20480", "gradient_out.early  f32 [64, 32]  of 1B0", "gradient_in.side  f32 [64, 16]  of 0B0"})
    EXPECT_NE(session.out.find(part), std::string::npos) << "no '" << part << "' in:\n" << session.out;
}

}  // namespace
}  // namespace millrace::tests
