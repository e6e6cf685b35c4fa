#include <gtest/gtest.h>

#include <filesystem>
#include <span>
#include <vector>

#include "actors/rank/initial_state.hpp"
#include "actors/rank/rank.hpp"
#include "runtime/checkpoint/checkpoint_reader.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/training/command.hpp"

// tests/golden/old_checkpoint is a run of AdamW that ended after step 2 of 4, written before train.optimizer existed.
namespace millrace::tests {
namespace {

class OldCheckpoint : public ::testing::Test {
 protected:
  OldCheckpoint() {
    std::filesystem::copy(source_path("tests/golden/old_checkpoint"), directory(), std::filesystem::copy_options::recursive);
  }
  [[nodiscard]] std::string directory() const { return folder_ / "run"; }
  [[nodiscard]] JobResult resume(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{"train",
                                   "data.tokens=tests/golden/runs/tokens.bin",
                                   "data.separator=0",
                                   "data.held_out=0",
                                   "train.sequence=16",
                                   "train.batch=2",
                                   "train.microbatches=2",
                                   "model.vocab_size=128",
                                   "model.hidden_size=8",
                                   "model.intermediate_size=12",
                                   "model.layers=1",
                                   "model.heads=2",
                                   "model.head_dim=4",
                                   "train.seed=5",
                                   "train.steps=4",
                                   "train.learning_rate=0.01",
                                   "train.threads=1",
                                   "run.directory=" + directory()};
    words.insert(words.end(), more.begin(), more.end());
    return run_job(1, words);
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(OldCheckpoint, GivesARankItsParametersAndMoments) {
  actors::PlanRequest request;
  request.model.vocab_size = 128;
  request.model.hidden_size = 8;
  request.model.intermediate_size = 12;
  request.model.layers = 1;
  request.model.heads = request.model.kv_heads = 2;
  request.model.head_dim = 4;
  request.train.batch = 2;
  request.train.sequence = 16;
  request.train.microbatches = 2;
  const auto plan = actors::make_plan(request);
  actors::Rank rank(plan, {.id = runtime::RankId(0), .needs = {}});
  const runtime::CheckpointReader checkpoint(directory() + "/checkpoints/step-00000002");
  actors::initialize_from_checkpoint(rank, checkpoint);
  const auto& shard = rank.compute().stage(runtime::StageId(0)).shard();
  ASSERT_EQ(shard.states().size(), 2U);
  ASSERT_EQ(shard.tensors().size(), plan.parameters.size());
  for (const auto& tensor : shard.tensors()) {
    const auto expect = [&](const std::string& name, std::span<const float> found) {
      std::vector<float> expected(found.size());
      checkpoint.read(name, std::span<float>(expected));
      EXPECT_EQ(std::vector<float>(found.begin(), found.end()), expected) << name;
      EXPECT_NE(expected, std::vector<float>(found.size())) << name << " has nothing but zeros";
    };
    expect(tensor.name, shard.master(tensor.name));
    expect("adamw.m/" + tensor.name, shard.state(tensor.name, 0));
    expect("adamw.v/" + tensor.name, shard.state(tensor.name, 1));
  }
}

// The run that nothing interrupted came to losses 4.8490 and 4.8277 in steps 3 and 4.
TEST_F(OldCheckpoint, IsResumed) {
  const auto result = resume({"pipeline.ranks=2"});
  ASSERT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_NE(result.out.find("resumes after step 2"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("step 3/4 | loss 4.8490 | gnorm 0.50"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("step 4/4 | loss 4.8277 | gnorm 0.52"), std::string::npos) << result.out;
}

TEST_F(OldCheckpoint, IsOfAdamw) {
  const auto result = resume({"train.optimizer=sgd"});
  EXPECT_EQ(result.code, 6) << result.out << result.err;
  EXPECT_NE(result.err.find("train.optimizer was \"adamw\", now \"sgd\""), std::string::npos) << result.err;
}

}  // namespace
}  // namespace millrace::tests
