#include <gtest/gtest.h>

#include <algorithm>

#include "tests/training/small_run.hpp"

// Recipes have the bits of one rank in every layout, alone and together.
namespace millrace::tests {
namespace {

using Words = std::vector<std::string>;

struct Recipe {
  const char* name;
  Words words;
  bool has_two_replicas = true;  // dualpipe can run it
};
void PrintTo(const Recipe& recipe, std::ostream* out) { *out << recipe.name; }

Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// The smallest model with latent attention, and routers whose biases move.
const Words deepseek{"model.family=deepseek_v3",
                     "model.experts=4",
                     "model.experts_per_token=2",
                     "model.moe_intermediate_size=24",
                     "model.kv_heads=4",
                     "model.q_lora_rank=12",
                     "model.kv_lora_rank=10",
                     "model.qk_nope_head_dim=6",
                     "model.qk_rope_head_dim=4",
                     "model.v_head_dim=5",
                     "model.shared_experts=1",
                     "train.qk_clip=0.01",
                     "train.routed_bias_update_rate=0.01"};
const Words everything = joined(deepseek, {"train.optimizer=muon", "train.average_decay=0.8", "train.first_moment=bf16",
                                           "train.skip_spikes=true", "train.skip_window=4", "train.skip_factor=0.5"});

class Recipes : public ::testing::TestWithParam<Recipe> {};

TEST_P(Recipes, HaveTheBitsOfOneRankInEveryLayout) {
  const bool experts = std::ranges::find(GetParam().words, "model.experts=4") != GetParam().words.end();
  const Words alone = joined(joined(GetParam().words, {"train.accumulators=2"}), experts ? Words{"train.expert_accumulators=2"} : Words{});
  const Outcome expected = run_small(1, alone);
  ASSERT_EQ(expected.code, 0) << expected.said;
  EXPECT_NE(expected.hash, run_small(1, {"train.accumulators=2"}).hash) << "the recipe changes nothing";
  struct Layout {
    int processes;
    Words words;
  };
  std::vector<Layout> layouts{
      {2, joined(alone, {"pipeline.ranks=2"})},
      {1, joined(alone, {"pipeline.ranks=2", "pipeline.chunks=2", "pipeline.schedule=zb-v"})},
      {1, joined(alone, {"pipeline.ranks=4", "pipeline.schedule=zb-h1", "rematerialize.policy=full"})},
      {2, joined(alone, {"mesh.data=2", "pipeline.ranks=2", "pipeline.schedule=zb-h1"})},
      {2, joined(alone, {"mesh.data=2", "pipeline.ranks=2", "mesh.shard=optimizer"})},
      {2, joined(alone, {"mesh.data=2", "pipeline.chunks=4", "pipeline.schedule=interleaved", "mesh.shard=parameters"})}};
  if (GetParam().has_two_replicas) layouts.push_back({1, joined(GetParam().words, {"pipeline.ranks=2", "pipeline.schedule=dualpipe"})});
  for (const auto& [processes, words] : layouts) {
    const Outcome found = run_small(processes, words);
    ASSERT_EQ(found.code, 0) << found.said;
    EXPECT_EQ(found.lines, expected.lines) << words.back();
    EXPECT_EQ(found.hash, expected.hash) << words.back();
  }
}

TEST(ParameterGroups, HaveTheRateAndDecayOfARunWithThese) {
  const Outcome expected = run_small(1, {"train.learning_rate=0.0005", "train.weight_decay=0.25"});
  const Outcome grouped = run_small(1, {"train.learning_rate=0.001", "train.groups=[\"norm\", \".\"]", "train.group_rates=[0.5, 0.5]",
                                        "train.group_weight_decays=[-1, 0.25]"});
  ASSERT_EQ(expected.code, 0) << expected.said;
  ASSERT_EQ(grouped.code, 0) << grouped.said;
  EXPECT_EQ(grouped.hash, expected.hash);
  EXPECT_NE(grouped.hash, run_small(1, {"train.learning_rate=0.001", "train.weight_decay=0.25"}).hash);
}

INSTANTIATE_TEST_SUITE_P(
    All, Recipes,
    ::testing::Values(
        Recipe{"muon_with_an_average", {"train.optimizer=muon", "train.muon_consistent_rms=0.2", "train.average_decay=0.8"}},
        Recipe{"muon_of_maxtext_with_spikes",
               {"train.optimizer=muon", "train.numerics=maxtext", "train.skip_spikes=true", "train.skip_window=2", "train.skip_factor=0.1",
                "train.clip=0"}},
        Recipe{"frozen_parts", {"train.trainable=[\"mlp\", \"norm\"]", "train.decay=rsqrt"}},
        Recipe{"groups",
               {"train.groups=[\"embed|lm_head\", \"norm\"]", "train.group_rates=[0.25, 2]", "train.group_weight_decays=[-1, 0.3]"}},
        Recipe{"growing_batch", {"train.microbatches=8", "train.ramp_microbatches=4", "train.ramp_increment=2", "train.ramp_rows=24"}},
        Recipe{"everything", everything}, Recipe{"everything_tied", joined(everything, {"model.tie_word_embeddings=true"})},
        Recipe{"everything_in_bf16", joined(everything, {"train.dtype=bf16"})},
        Recipe{"everything_with_a_module", joined(everything, {"model.mtp_layers=1"})}),
    [](const auto& recipe) { return std::string(recipe.param.name); });

}  // namespace
}  // namespace millrace::tests
