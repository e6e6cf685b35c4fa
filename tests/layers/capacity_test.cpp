#include "layers/moe/capacity.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "runtime/engine/expert_load.hpp"
#include "tests/layers/model_fixture.hpp"

// Experts that take no more than their capacity of a sequence's choices.
namespace millrace::layers::testing {
namespace {

TEST(Capacity, IsMaxTextsPartOfTheChoices) {
  EXPECT_EQ(expert_capacity(16, 2, 4, 1.0), 8);
  EXPECT_EQ(expert_capacity(16, 2, 4, 0.75), 6);
  EXPECT_EQ(expert_capacity(5, 2, 4, 1.0), 3);   // ⌈10 / 4⌉
  EXPECT_EQ(expert_capacity(5, 2, 4, 0.75), 2);  // 2.25
  EXPECT_EQ(expert_capacity(5, 2, 4, 1.25), 3);  // 3.75
  // A factor below 1 with no more choices than experts leaves nothing.
  EXPECT_EQ(expert_capacity(2, 2, 8, 0.9), 0);
  EXPECT_EQ(expert_capacity(2, 2, 8, 1.0), 1);
  EXPECT_EQ(expert_capacity(2, 2, 8, 2.5), 2);
  EXPECT_EQ(expert_capacity(4, 1, 2, 1e12), 4);  // all that there are
}

ModelConfig with_capacity(const std::string& numerics, double factor) {
  ModelConfig config = tiny_model(false);
  config.family = "mixtral";
  config.numerics = numerics;
  config.experts = 5;
  config.experts_per_token = 2;
  config.capacity_factor = factor;
  return config;
}

struct Done {
  double loss = 0;
  std::int64_t dropped = 0;
  std::vector<std::uint32_t> gradients;
};

Done run(const ModelConfig& config, LoopOptions options) {
  Model model(config, options);
  model.initialise(7);
  const auto sums = model.loop().accumulate(model.context(), tiny_microbatches, tiny_targets, tiny_batches());
  Done done{sums.mean().total, 0, model.gradient_bits()};
  for (const auto& load : runtime::expert_loads(runtime::add_observations(sums.observed, static_cast<int>(model.stages().size()))))
    done.dropped += load.dropped;
  return done;
}

TEST(Capacity, ThatSufficesHasTheBitsOfNone) {
  for (const char* numerics : {"hf", "maxtext"}) {
    const Done none = run(with_capacity(numerics, 0), tiny_loop()), all = run(with_capacity(numerics, 100), tiny_loop());
    EXPECT_EQ(all.dropped, 0);
    EXPECT_TRUE(all.gradients == none.gradients) << numerics;
    EXPECT_EQ(all.loss, none.loss);
  }
}

TEST(Capacity, DropsTheSameChoicesInEveryLayout) {
  for (const char* numerics : {"hf", "maxtext"}) {
    const ModelConfig config = with_capacity(numerics, 0.7);
    const Done whole = run(config, tiny_loop());
    EXPECT_GT(whole.dropped, 0);
    EXPECT_LT(whole.dropped, 4 * tiny_microbatches * 24 * 2);
    EXPECT_FALSE(whole.gradients == run(with_capacity(numerics, 0), tiny_loop()).gradients);
    for (const char* layout : {"E t*2 | t*2 H", "E | t | t*3 | H"})
      for (const char* policy : {"none", "full"}) {
        LoopOptions cut = tiny_loop();
        cut.layout = layout;
        cut.mode = runtime::BackwardMode::split;
        cut.rematerialize = policy;
        const Done found = run(config, cut);
        EXPECT_EQ(found.dropped, whole.dropped);
        EXPECT_EQ(found.loss, whole.loss);
        EXPECT_TRUE(found.gradients == whole.gradients) << layout << ", " << policy;
      }
  }
}

/// Nothing comes from the experts then, and nothing goes to them.
TEST(Capacity, OfZeroDropsEverything) {
  const ModelConfig config = with_capacity("maxtext", 0.01);  // ⌈24 / 5⌉ · 0.01
  Model model(config, tiny_loop());
  model.initialise(7);
  const auto sums = model.loop().accumulate(model.context(), tiny_microbatches, tiny_targets, tiny_batches());
  for (const auto& load : runtime::expert_loads(runtime::add_observations(sums.observed, 1))) {
    EXPECT_EQ(load.dropped, tiny_microbatches * 24 * 2);
    EXPECT_EQ(load.total(), tiny_microbatches * 24 * 2) << "a dropped choice counts as a choice";
  }
  for (const auto& spec : model_parameters(config))
    EXPECT_EQ(largest(model.gradient(spec.name)) == 0,
              spec.name.find("MoeBlock_0") != std::string::npos || spec.name.find("post_self_attention") != std::string::npos)
        << spec.name;
}

}  // namespace
}  // namespace millrace::layers::testing
