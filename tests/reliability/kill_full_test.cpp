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

/// The smallest model with latent attention and routers whose biases move.
const std::vector<std::string> deepseek{"model.family=deepseek_v3",  "model.experts=4",
                                        "model.experts_per_token=2", "model.moe_intermediate_size=24",
                                        "model.shared_experts=1",    "model.first_dense_layers=1",
                                        "model.kv_heads=4",          "model.q_lora_rank=12",
                                        "model.kv_lora_rank=10",     "model.qk_nope_head_dim=6",
                                        "model.qk_rope_head_dim=4",  "model.v_head_dim=5"};

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

std::vector<std::string> with(std::vector<std::string> keys, const std::vector<std::string>& more) {
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

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
        Recipe{"modules", {"model.mtp_layers=2"}}, Recipe{"n_gram_memories", engram},
        Recipe{"trainable", {"train.trainable=[\"mlp\", \"embed\"]", "train.decay=rsqrt"}}),
    [](const auto& recipe) { return std::string(recipe.param.name); });

TEST(SharedExperts, KilledAtAnyExchangeTheyResumeToTheBit) {
  Training training(with(deepseek, {"mesh.expert=2", "train.accumulators=2", "pipeline.ranks=2", "pipeline.weave=neighbours"}));
  for (int trial = 0; trial < 20; ++trial) kill_and_resume(training, Blow::at_an_exchange, 500 + trial);
}

}  // namespace
}  // namespace millrace::tests
