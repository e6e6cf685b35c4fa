#include "runtime/optimizers/parameter_groups.hpp"

#include <gtest/gtest.h>

#include "tests/support/expect_error.hpp"

namespace millrace::runtime {
namespace {

TrainConfig with_groups() {
  TrainConfig train;
  train.groups = {"embed|lm_head", "norm", "layers/0/"};
  return train;
}

TEST(ParameterGroups, GiveTheFirstGroupThatFindsTheName) {
  TrainConfig train = with_groups();
  train.group_rates = {0.25, 2, 3};
  const ParameterGroups groups(train);
  EXPECT_EQ(groups.size(), 3U);
  EXPECT_EQ(groups.group_of("model.embed_tokens.weight"), 0U);
  EXPECT_EQ(groups.group_of("model.layers.0.input_layernorm.weight"), 1U) << "not that of the layer, which comes later";
  EXPECT_EQ(groups.group_of("model.layers.0.mlp.up_proj.weight"), 2U);
  EXPECT_EQ(groups.group_of("model.layers.10.mlp.up_proj.weight"), std::nullopt);
  EXPECT_EQ(groups.scalars("model.norm.weight"), (GroupScalars{.rate = 2}));
  EXPECT_EQ(groups.scalars("model.layers.10.mlp.up_proj.weight"), GroupScalars{});
}

TEST(ParameterGroups, DecayAsTheySay) {
  TrainConfig train = with_groups();
  train.decay_mask = {"lm_head", "norm"};
  train.group_weight_decays = {-1, 0.5, 0};
  const ParameterGroups groups(train);
  EXPECT_TRUE(groups.decays("model.embed_tokens.weight", {4, 4}));
  EXPECT_FALSE(groups.decays("lm_head.weight", {4, 4})) << "its group leaves decay to the rule, which has a mask";
  EXPECT_EQ(groups.scalars("lm_head.weight").weight_decay, std::nullopt);
  EXPECT_TRUE(groups.decays("model.norm.weight", {4})) << "a group with a decay applies it to vectors, whatever the mask says";
  EXPECT_EQ(groups.scalars("model.norm.weight").weight_decay, 0.5);
  EXPECT_EQ(groups.scalars("model.layers.0.mlp.up_proj.weight").weight_decay, 0.0);
  EXPECT_FALSE(groups.decays("model.layers.1.bias", {4}));
}

TEST(ParameterGroups, ReplaceTheScalarsOfAnUpdate) {
  const UpdateScalars scalars{.learning_rate = 0.5, .gradient_scale = 0.25F, .update = 3};
  const UpdateScalars same = GroupScalars{}.applied_to(scalars),
                      other = GroupScalars{.rate = 0.5, .weight_decay = 0.75}.applied_to(scalars);
  EXPECT_EQ(same.learning_rate, 0.5);
  EXPECT_EQ(same.weight_decay, std::nullopt);
  EXPECT_EQ(other.learning_rate, 0.25);
  EXPECT_EQ(other.weight_decay, 0.75);
  EXPECT_EQ(other.gradient_scale, 0.25F);
  EXPECT_EQ(other.update, 3);
}

TEST(ParameterGroups, RefuseListsOfAnotherLength) {
  TrainConfig train = with_groups();
  train.group_rates = {1};
  tests::expect_error([&] { (void)ParameterGroups(train); }, ExitCode::config, {"train.group_rates has 1 value", "each of the 3"});
  train.group_rates = {};
  train.group_weight_decays = {0, 0};
  tests::expect_error([&] { (void)ParameterGroups(train); }, ExitCode::config, {"train.group_weight_decays has 2 values", "each of the 3"});
  train.groups = {"(up"};
  train.group_weight_decays = {};
  tests::expect_error([&] { (void)ParameterGroups(train); }, ExitCode::config, {"train.groups", "\"(up\""});
}

}  // namespace
}  // namespace millrace::runtime
