#include <signal.h>

#include <random>
#include <thread>

#include "kernels/base/check.hpp"
#include "tests/reliability/kill_trials.hpp"

namespace millrace::tests {
namespace {

TEST(KillAndResume, TwentyTimesGivesTheBitsOfAnUndisturbedRun) {
  Training training;
  for (int trial = 0; trial < 20; ++trial) kill_and_resume(training, static_cast<Blow>(trial % blows), 100 + trial);
}

/// A way of training, as keys of the run.
struct Recipe {
  const char* name;
  std::vector<std::string> keys;
};
void PrintTo(const Recipe& recipe, std::ostream* out) { *out << recipe.name; }

/// The smallest model with n-gram memories.
const std::vector<std::string> engram{"model.family=deepseek",
                                      "model.numerics=maxtext",
                                      "model.kv_heads=4",
                                      "model.q_lora_rank=12",
                                      "model.kv_lora_rank=10",
                                      "model.qk_nope_head_dim=6",
                                      "model.qk_rope_head_dim=4",
                                      "model.v_head_dim=5",
                                      "model.rope=yarn",
                                      "model.rope_factor=4",
                                      "model.rope_original_max_position=64",
                                      "model.mhc_expansion_rate=2",
                                      "model.engram_layers=1",
                                      "model.engram_num_heads=2",
                                      "model.engram_head_dim=4",
                                      "model.engram_vocab_bases=50,60",
                                      "model.engram_compressed_vocab_size=228",
                                      "model.engram_compressed_pad_id=227"};

class RecipeKilled : public ::testing::TestWithParam<Recipe> {};

TEST_P(RecipeKilled, TenTimesGivesTheBitsOfAnUndisturbedRun) {
  Training training(GetParam().keys);
  for (int trial = 0; trial < 10; ++trial) kill_and_resume(training, static_cast<Blow>(trial % blows), 300 + trial);
}

INSTANTIATE_TEST_SUITE_P(
    Recipes, RecipeKilled,
    ::testing::Values(
        Recipe{"muon", {"train.optimizer=muon", "train.muon_consistent_rms=0.2"}},
        Recipe{"muon_of_maxtext", {"train.optimizer=muon", "train.numerics=maxtext", "train.decay=wsd", "train.decay_steps=8"}},
        Recipe{"skipped_steps", {"train.skip_spikes=true", "train.skip_window=8", "train.skip_factor=1"}},
        Recipe{"skipped_steps_of_maxtext",
               {"train.skip_spikes=true", "train.skip_window=8", "train.skip_factor=1", "train.numerics=maxtext", "train.clip=0"}},
        Recipe{"accumulation", with(deepseek, {"train.numerics=maxtext", "train.accumulation_steps=2", "train.balance_loss=0.1",
                                               "train.routed_bias_update_rate=0.01"})},
        Recipe{"qk_clip", with(deepseek, {"train.qk_clip=0.01", "train.routed_bias_update_rate=0.01"})},
        Recipe{"ramp_up", {"train.microbatches=6", "train.ramp_microbatches=2", "train.ramp_increment=2", "train.ramp_rows=50"}},
        Recipe{"average", {"train.average_decay=0.9", "train.first_moment=bf16", "evaluate.average=true"}},
        Recipe{"shared_experts", with(deepseek, {"mesh.expert=2", "train.accumulators=2", "pipeline.ranks=2"})},
        Recipe{"divided_update",
               {"mesh.data=2", "mesh.shard=optimizer", "pipeline.ranks=2", "train.accumulators=2", "model.tie_word_embeddings=true"}},
        Recipe{"modules", {"model.mtp_layers=2"}}, Recipe{"n_gram_memories", engram},
        Recipe{"trainable", {"train.trainable=[\"mlp\", \"embed\"]", "train.decay=rsqrt"}}),
    [](const auto& recipe) { return std::string(recipe.param.name); });

TEST(SharedExperts, KilledAtAnyExchangeTheyResumeToTheBit) {
  Training training(with(deepseek, {"mesh.expert=2", "train.accumulators=2", "pipeline.ranks=2", "pipeline.weave=neighbours"}));
  for (int trial = 0; trial < 20; ++trial) kill_and_resume(training, Blow::at_an_exchange, 500 + trial);
}

/// Runs once with this fault; nothing may be lost or differ.
void expect_the_same_with(Training& training, const std::string& fault, const std::string& directory) {
  const auto end = training.run(4, directory, {}, {"MILLRACE_FAULT=" + fault});
  EXPECT_EQ(end.code, 0) << fault << "\n" << end.out << end.err;
  EXPECT_EQ(training.result(directory), training.undisturbed()) << fault;
}

TEST(SharedExperts, DelayedAtAnyExchangeTheyHaveTheSameBits) {
  Training training(with(deepseek, {"mesh.expert=2", "train.accumulators=2", "pipeline.ranks=2", "pipeline.weave=neighbours"}));
  std::mt19937 random(9);
  for (int trial = 0; trial < 35; ++trial) {
    const auto process = std::to_string(random() % 4), hit = std::to_string(1 + random() % 400);
    const std::string delay = trial % 4 == 0 ? ":delay=1" : ":hit=" + hit + ":delay=" + std::to_string(100 + random() % 900);
    expect_the_same_with(training, "point=exchange.post" + delay + ":rank=" + process, "run-" + std::to_string(trial));
  }
}

const std::vector<std::string> divided{"mesh.data=2", "mesh.shard=optimizer", "pipeline.ranks=2", "train.accumulators=2"};

TEST(DividedUpdate, KilledAtAnyTransferItResumesToTheBit) {
  Training training(divided);
  for (int trial = 0; trial < 20; ++trial) kill_and_resume(training, Blow::at_a_transfer, 700 + trial);
}

const std::vector<std::string> gathered{"mesh.data=2",         "mesh.shard=parameters",         "pipeline.ranks=2",     "pipeline.chunks=2",
                                        "mesh.weight_slots=1", "pipeline.schedule=interleaved", "train.leaf=microbatch"};

TEST(DividedParameters, KilledAtAnyTransferTheyResumeToTheBit) {
  Training training(gathered);
  for (int trial = 0; trial < 20; ++trial) kill_and_resume(training, Blow::at_a_transfer, 900 + trial);
}

/// Delays processes at transfers, each run at another one of the first so many.
void delay_at_transfers(Training& training, unsigned hits, unsigned seed) {
  std::mt19937 random(seed);
  for (int trial = 0; trial < 12; ++trial) {
    const auto process = std::to_string(random() % 4), hit = std::to_string(1 + random() % hits);
    const std::string delay = trial % 4 == 0 ? ":delay=5" : ":hit=" + hit + ":delay=" + std::to_string(100 + random() % 900);
    expect_the_same_with(training, std::string("point=replicas.") + (trial % 2 == 0 ? "reduce" : "gather") + delay + ":rank=" + process,
                         "run-" + std::to_string(trial));
  }
}

TEST(DividedUpdate, DelayedAtAnyTransferItHasTheSameBits) {
  Training training(divided);
  delay_at_transfers(training, 40, 11);
}

TEST(DividedParameters, DelayedAtAnyTransferTheyHaveTheSameBits) {
  Training training(gathered);
  delay_at_transfers(training, 80, 13);
}

/// Stops a process of each run for a while, at any time; returns how many were stopped.
int stop_for_a_while(Training& training, int trials, unsigned seed) {
  std::mt19937 random(seed);
  int stopped = 0;
  for (int trial = 0; trial < trials; ++trial) {
    const std::string directory = "run-" + std::to_string(trial);
    Job job(mpirun(4), training.words(directory));
    if (job.wait_for("step " + std::to_string(1 + random() % 35) + "/", Training::patience)) {
      const auto pid = job.process(static_cast<int>(random() % 4));
      if (pid && ::kill(*pid, SIGSTOP) == 0) {
        ++stopped;
        std::this_thread::sleep_for(std::chrono::milliseconds(50 + random() % 1500));
        ::kill(*pid, SIGCONT);
      }
    }
    const auto end = job.wait(Training::patience);
    EXPECT_TRUE(end) << "the job hangs\n" << job.out() << job.err();
    if (!end) return stopped;
    EXPECT_EQ(end->code, 0) << end->out << end->err;
    EXPECT_EQ(training.result(directory), training.undisturbed());
  }
  return stopped;
}

TEST(SharedExperts, StoppedForAWhileTheyGoOnWithTheSameBits) {
  Training training(with(deepseek, {"mesh.expert=2", "train.accumulators=2", "pipeline.ranks=2"}));
  EXPECT_GT(stop_for_a_while(training, 35, 10), 10);
}

TEST(DividedParameters, StoppedForAWhileTheyGoOnWithTheSameBits) {
  Training training(gathered);
  EXPECT_GT(stop_for_a_while(training, 12, 12), 4);
}

// A copy's process that stays stopped is named, and the same command goes on without a bit's difference.
TEST(DividedParameters, AStoppedProcessIsLostAndTheRunGoesOn) {
  for (const auto& mesh : {divided, gathered}) {
    Training training(mesh);
    {
      Job job(mpirun(4), training.words("run", {"cluster.timeout_ms=2000"}), {"MILLRACE_FAULT=point=replicas.reduce:delay=5"});
      ASSERT_TRUE(job.wait_for("step 6/", Training::patience)) << job.out() << job.err();
      const auto stopped = job.process(3);
      ASSERT_TRUE(stopped);
      ::kill(*stopped, SIGSTOP);
      const auto end = job.wait(Training::patience);
      ASSERT_TRUE(end) << "the job hangs\n" << job.out() << job.err();
      EXPECT_EQ(end->code, static_cast<int>(ExitCode::peer_lost)) << end->err;
      EXPECT_NE(end->err.find("(rank 3"), std::string::npos) << end->err;
      EXPECT_NE(end->err.find("was lost: it was silent for"), std::string::npos) << end->err;
      EXPECT_TRUE(job.all_gone(Job::Seconds(10)));
    }
    EXPECT_EQ(training.run(4, "run").code, 0);
    EXPECT_EQ(training.result("run"), training.undisturbed());
  }
}

}  // namespace
}  // namespace millrace::tests
