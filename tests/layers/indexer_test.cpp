#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "layers/attention/indexer.hpp"
#include "tests/layers/model_fixture.hpp"
#include "tests/support/expect_error.hpp"

/// Models whose queries attend to the keys that an indexer chooses.
namespace millrace::layers::testing {
namespace {

/// Rows of tiny_batches() have twelve tokens, of which a query attends to five.
ModelConfig indexed_model(const std::string& numerics = "hf") {
  ModelConfig config = tiny_model(false);
  const bool maxtext = numerics == "maxtext";
  config.family = maxtext ? "deepseek" : "deepseek_v32";
  config.numerics = numerics;
  config.layers = 3;
  config.kv_heads = config.heads;
  config.q_lora_rank = 10;
  config.kv_lora_rank = 9;
  config.qk_nope_head_dim = 5;
  config.qk_rope_head_dim = config.head_dim = 4;
  config.v_head_dim = 7;
  config.index_n_heads = 3;
  config.index_head_dim = 6;
  config.index_topk = 5;
  config.experts = 4;
  config.experts_per_token = 2;
  config.moe_intermediate_size = 12;
  config.first_dense_layers = 1;
  config.shared_experts = 1;
  if (maxtext) {
    config.rope = {.kind = RopeKind::yarn, .factor = 4, .original_max_position = 16};
    config.rope_interleaved = true;
    config.routed_score = kernels::RouterScore::sigmoid;
    config.routed_bias = kernels::RouterBias::choice;
  }
  return config;
}

runtime::StepLoss accumulate(Model& model) {
  model.initialise(7);
  return model.loop().accumulate(model.context(), tiny_microbatches, tiny_targets, tiny_batches()).mean();
}

LoopOptions with_losses(const runtime::LossWeights& losses) {
  LoopOptions options = tiny_loop();
  options.losses = losses;
  return options;
}

// The loss of the language model does not train indexers, and their loss trains nothing else.
TEST(Indexer, HasALossOfItsOwn) {
  for (const char* numerics : {"hf", "maxtext"}) {
    SCOPED_TRACE(numerics);
    const ModelConfig config = indexed_model(numerics);
    Model plain(config, tiny_loop()), model(config, with_losses({.indexer_loss = 0.5}));
    const auto without = accumulate(plain), with = accumulate(model);
    EXPECT_EQ(without.terms.size(), 1U);
    const auto *lm = with.find("lm_loss"), *indexer = with.find("indexer_loss");
    ASSERT_TRUE(lm != nullptr && indexer != nullptr);
    EXPECT_EQ(lm->sum, without.find("lm_loss")->sum);
    EXPECT_GT(indexer->value, 0);
    EXPECT_NEAR(with.total, lm->value + indexer->value, 1e-9);
    EXPECT_EQ(with.main, lm->value);
    for (const ParameterSpec& spec : model_parameters(config, {.indexer_loss = 0.5})) {
      if (!spec.trained) continue;
      if (is_of_indexer(spec.name)) {
        EXPECT_GT(largest(model.gradient(spec.name)), 0) << spec.name;
        EXPECT_EQ(largest(plain.gradient(spec.name)), 0) << spec.name;
      } else {
        EXPECT_EQ(model.gradient(spec.name), plain.gradient(spec.name)) << spec.name;
      }
    }
  }
}

TEST(Indexer, IsWarmedUpAlone) {
  for (const char* numerics : {"hf", "maxtext"}) {
    SCOPED_TRACE(numerics);
    const ModelConfig config = indexed_model(numerics);
    const runtime::LossWeights losses{.indexer_loss = 0.5, .indexer_warmup = true};
    Model model(config, with_losses(losses)), sparse(config, with_losses({.indexer_loss = 0.5}));
    const auto loss = accumulate(model), chosen = accumulate(sparse);
    EXPECT_EQ(loss.total, loss.find("indexer_loss")->value);
    EXPECT_EQ(loss.main, loss.find("lm_loss")->value);
    EXPECT_EQ(loss.find("lm_loss")->sum, chosen.find("lm_loss")->sum);
    EXPECT_NE(loss.find("indexer_loss")->sum, chosen.find("indexer_loss")->sum);
    for (const ParameterSpec& spec : model_parameters(config, losses)) {
      EXPECT_EQ(spec.trained, is_of_indexer(spec.name)) << spec.name;
      EXPECT_EQ(largest(model.gradient(spec.name)) > 0, is_of_indexer(spec.name)) << spec.name;
    }
  }
}

TEST(Indexer, OfTransformersIsNotTrainedWithoutALoss) {
  const auto trained = [](const ModelConfig& config, const runtime::LossWeights& losses) {
    const auto all = model_parameters(config, losses);
    return std::ranges::count_if(all, [](const ParameterSpec& spec) { return spec.trained && is_of_indexer(spec.name); });
  };
  EXPECT_EQ(trained(indexed_model(), {}), 0);
  EXPECT_EQ(trained(indexed_model(), {.indexer_loss = 0.1}), 3 * 5);
  EXPECT_EQ(trained(indexed_model("maxtext"), {}), 3 * 5);
}

// Rows that are not longer than the number of keys have attention to all of them: with one more key than tokens, or with more.
TEST(Indexer, ShortRowsHaveAttentionToAllKeys) {
  ModelConfig config = indexed_model();
  config.index_topk = 12;
  Model exact(config, with_losses({.indexer_loss = 0.5}));
  const auto loss = accumulate(exact);
  EXPECT_EQ(loss.find("indexer_loss"), nullptr);
  config.index_topk = 1000;
  Model longer(config, tiny_loop());
  EXPECT_EQ(accumulate(longer).total, loss.total);
  config.index_topk = 11;  // the last query alone leaves out a key
  Model shorter(config, tiny_loop());
  EXPECT_NE(accumulate(shorter).total, loss.total);
}

TEST(Indexer, WrongSizesAreRefused) {
  const auto expect_refused = [](auto&& change, const std::string& text) {
    ModelConfig config = indexed_model();
    change(config);
    tests::expect_error([&] { (void)resolve(config); }, ExitCode::model, {text});
  };
  expect_refused([](ModelConfig& config) { config.index_n_heads = 0; }, "index_n_heads = 0, expected 1 or more");
  expect_refused([](ModelConfig& config) { config.index_topk = 0; }, "index_topk = 0, expected 1 or more");
  expect_refused([](ModelConfig& config) { config.index_head_dim = 3; }, "index_head_dim = 3, expected qk_rope_head_dim = 4 or more");
  expect_refused([](ModelConfig& config) { config.q_lora_rank = 0; }, "q_lora_rank = 0 with an indexer");
  expect_refused([](ModelConfig& config) { config.causal = false; }, "causal = false with an indexer");
}

}  // namespace
}  // namespace millrace::layers::testing
