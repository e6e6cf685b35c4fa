#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "layers/formats/config_file.hpp"
#include "layers/models/model.hpp"
#include "tests/layers/golden_config.hpp"
#include "tests/support/expect_error.hpp"

// The keys of indexers in config.json, as transformers' DeepSeek-V3.2 and MaxText's block deepseek read them.
namespace millrace::layers {
namespace {

using nlohmann::json;
using tests::expect_error;

/// A golden model's config.json with some keys replaced, by null too.
json with_keys(const std::string& name, const json& patch = json::object()) {
  json config = golden_config(name);
  config.update(patch);
  return config;
}

json v32(const json& patch = json::object()) { return with_keys("hf_deepseek_v32", patch); }
json maxtext_indexer(const json& patch = json::object()) { return with_keys("maxtext_deepseek_indexer", patch); }

/// Parses, and checks that the export is read as the same model with the same losses.
ConfigFile parsed(const json& config) {
  ConfigFile file = parse_config_file(config.dump(), "config.json");
  const std::string text = config_file_text(file, "float32");
  const ConfigFile again = parse_config_file(text, "export");
  EXPECT_EQ(again.model, file.model) << text;
  EXPECT_EQ(again.losses, file.losses) << text;
  return file;
}

LatentAttentionSpec mixer_of(const ModelConfig& model) { return std::get<LatentAttentionSpec>(resolve(model).layers.at(0).mixer); }

void expect_refusal(const json& config, const char* key, const std::string& says) {
  SCOPED_TRACE(key);
  expect_error([&] { (void)parse_config_file(config.dump(), "config.json"); }, ExitCode::model, {std::string("config.json: ") + key, says});
}

TEST(IndexerKeys, AreThoseOfTransformers) {
  const ConfigFile file = parsed(v32());
  EXPECT_TRUE(file.warnings.empty()) << file.warnings[0];
  EXPECT_EQ(file.model.family, "deepseek_v32");
  const LatentAttentionSpec attention = mixer_of(file.model);
  EXPECT_EQ(attention.indexer, (IndexerSpec{.heads = 4, .head_dim = 16, .keys = 6, .torch_ties = true}));
  EXPECT_TRUE(attention.interleaved) << "unlike the rotation of the indexer";
  EXPECT_EQ(file.losses, runtime::LossWeights{});
  json config = v32();
  for (const char* key : {"index_n_heads", "index_head_dim", "index_topk", "layer_types"}) config.erase(key);
  EXPECT_EQ(mixer_of(parsed(config).model).indexer, (IndexerSpec{.heads = 64, .head_dim = 128, .keys = 2048, .torch_ties = true}));
}

TEST(IndexerKeys, MayNameLayersAsOlderVersionsDo) {
  for (const char* name : {"deepseek_sparse_attention", "dynamic_sparse_attention"})
    EXPECT_EQ(parsed(v32({{"layer_types", {name, name, name}}})).model, parsed(v32()).model) << name;
  expect_refusal(v32({{"layer_types", {"indexed_attention", "full_attention", "indexed_attention"}}}), "layer_types",
                 "expected \"indexed_attention\" (or an older name) for each of the 3 layers");
  expect_refusal(v32({{"layer_types", {"indexed_attention"}}}), "layer_types", "for each of the 3 layers");
}

TEST(IndexerKeys, ThatDoNotFitAreRefused) {
  expect_refusal(v32({{"index_topk", 0}}), "index_topk = 0", "from 1 to");
  expect_refusal(v32({{"index_n_heads", -1}}), "index_n_heads = -1", "from 1 to");
  expect_refusal(v32({{"index_head_dim", 6}}), "index_head_dim = 6", "expected qk_rope_head_dim = 8 or more");
  expect_refusal(v32({{"q_lora_rank", nullptr}}), "q_lora_rank", "expected a number of 1 or more");
  const json small{{"indexer_head_dim", 1}}, no_rank{{"q_lora_rank", 0}};
  expect_refusal(maxtext_indexer(small), "indexer_head_dim = 1", "expected qk_rope_head_dim");
  expect_refusal(maxtext_indexer(no_rank), "q_lora_rank = 0", "expected 1 or more with use_indexer");
}

/// transformers' class of this version does not read rope_interleave: its pairs are always neighbours.
TEST(IndexerKeys, ComeWithoutAFormOfTheRotation) {
  const ConfigFile file = parsed(v32({{"rope_interleave", false}}));
  ASSERT_EQ(file.warnings.size(), 1U);
  EXPECT_NE(file.warnings[0].find("rope_interleave is not read by transformers"), std::string::npos);
  EXPECT_TRUE(mixer_of(file.model).interleaved);
}

TEST(IndexerKeys, AreThoseOfMaxText) {
  const ConfigFile sparse = parsed(maxtext_indexer());
  EXPECT_EQ(mixer_of(sparse.model).indexer, (IndexerSpec{.heads = 4, .head_dim = 12, .keys = 5, .always_trained = true}));
  EXPECT_EQ(sparse.losses.indexer_loss, 0.3);
  EXPECT_FALSE(sparse.losses.indexer_warmup);
  const ConfigFile warmup = parsed(with_keys("maxtext_deepseek_indexer_warmup"));
  EXPECT_EQ(warmup.losses.indexer_loss, 0.3);
  EXPECT_TRUE(warmup.losses.indexer_warmup);
  // Without a loss there is nothing to warm up.
  const ConfigFile untrained = parsed(maxtext_indexer({{"indexer_loss_scaling_factor", 0}, {"indexer_sparse_training", false}}));
  EXPECT_FALSE(untrained.losses.indexer_warmup);
  const ConfigFile off = parsed(maxtext_indexer({{"use_indexer", false}}));
  EXPECT_EQ(off.model.index_topk, 0);
  EXPECT_EQ(off.losses.indexer_loss, 0);
  EXPECT_FALSE(mixer_of(off.model).indexer.has_value());
}

std::vector<std::string> indexer_names(const ModelConfig& model, const std::string& prefix) {
  std::vector<std::string> names;
  for (const auto& spec : model_parameters(model))
    if (spec.name.starts_with(prefix)) names.push_back(spec.name.substr(prefix.size()) + " " + kernels::to_string(spec.shape));
  return names;
}

TEST(IndexerParameters, HaveTheCheckpointsNames) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(indexer_names(parsed(v32()).model, "model.layers.2.self_attn.indexer."),
            (Names{"wq_b.weight [64, 24]", "wk.weight [16, 32]", "weights_proj.weight [4, 32]", "k_norm.weight [16]", "k_norm.bias [16]"}));
}

}  // namespace
}  // namespace millrace::layers
