#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "layers/formats/config_file.hpp"
#include "layers/models/model.hpp"
#include "tests/layers/golden_config.hpp"
#include "tests/support/expect_error.hpp"

// The keys of Llama 4's config.json, as transformers' class reads them, and MaxText's.
namespace millrace::layers {
namespace {

using nlohmann::json;
using tests::expect_error;

constexpr auto rotary = LayerPositions::rotary, no_rotation = LayerPositions::none;
using LayerKind::chunked;
using LayerKind::full;

/// Parses, and checks that the export is read as the same model.
ModelConfig exported_again(const json& config) {
  const ConfigFile file = parse(config);
  EXPECT_EQ(parse_config_file(config_file_text(file, "float32"), "again").model, file.model);
  return file.model;
}

void expect_value_refused(const json& config, const char* key, const json& value, const char* says) {
  json changed = config;
  changed[key] = value;
  expect_error([&] { (void)parse(changed); }, ExitCode::model, {"config.json: " + std::string(key) + " = " + value.dump(), says});
}

TEST(Llama4, LayersAreThoseOfItsLists) {
  const ModelConfig model = exported_again(golden_config("hf_llama4"));
  EXPECT_EQ(model.layer_positions, (std::vector{rotary, rotary, rotary, no_rotation}));
  EXPECT_EQ(model.layer_kinds, (std::vector{chunked, chunked, chunked, full}));
  EXPECT_EQ(model.mlp_kinds, (std::vector{MlpKind::dense, MlpKind::sparse, MlpKind::dense, MlpKind::sparse}));
  EXPECT_EQ(model.intermediate_size, 48);
  EXPECT_EQ(model.moe_intermediate_size, 24);
  EXPECT_EQ(model.attention_chunk, 8);
  EXPECT_EQ(model.floor_scale, 4);

  const ModelSpec spec = resolve(model);
  const AttentionSpec &turned = spec.layers[0].attention(), &plain = spec.layers[3].attention();
  EXPECT_EQ(turned.norm, QueryKeyNorm::after_rotation);
  EXPECT_TRUE(turned.interleaved);
  EXPECT_EQ(turned.chunk, 8);
  EXPECT_FALSE(turned.temperature);
  EXPECT_EQ(plain.norm, QueryKeyNorm::none);
  EXPECT_FALSE(plain.rope);
  EXPECT_EQ(plain.chunk, 0);
  EXPECT_EQ(plain.temperature, (QueryTemperature{.scale = 0.1, .floor = 4}));
  EXPECT_EQ(spec.layers[0].mlp().width, 48);
  const auto& experts = std::get<ExpertsSpec>(spec.layers[1].ffn);
  EXPECT_TRUE(experts.scale_input);
  EXPECT_EQ(experts.expert.width, 24);
  EXPECT_EQ(experts.shared.value().width, 24);
}

TEST(Llama4, WithoutListsLayersFollowTheIntervals) {
  json config = golden_config("hf_llama4");
  const ModelConfig listed = parse(config).model;
  for (const char* key : {"no_rope_layers", "layer_types", "moe_layers"}) config.erase(key);
  EXPECT_EQ(parse(config).model, listed);
  config["no_rope_layers"] = json::array();  // as published
  EXPECT_EQ(parse(config).model, listed);
  config["no_rope_layer_interval"] = 2;
  config["interleave_moe_layer_step"] = 1;
  const ModelConfig model = exported_again(config);
  EXPECT_EQ(model.layer_positions, (std::vector{rotary, no_rotation, rotary, no_rotation}));
  EXPECT_EQ(model.layer_kinds, (std::vector{chunked, full, chunked, full}));
  EXPECT_TRUE(model.mlp_kinds.empty());
  config["no_rope_layer_interval"] = 9;
  EXPECT_TRUE(exported_again(config).layer_positions.empty());
  EXPECT_EQ(exported_again(config).layer_kinds, std::vector(4, chunked));
}

/// Masks and rotations do not depend on each other.
TEST(Llama4, ListsMayBeIrregular) {
  json config = golden_config("hf_llama4");
  config["no_rope_layers"] = {0, 1, 1, 0};
  config["layer_types"] = {"full_attention", "chunked_attention", "full_attention", "chunked_attention"};
  config["moe_layers"] = {2};
  const ModelConfig model = exported_again(config);
  EXPECT_EQ(model.layer_positions, (std::vector{no_rotation, rotary, rotary, no_rotation}));
  EXPECT_EQ(model.layer_kinds, (std::vector{full, chunked, full, chunked}));
  EXPECT_EQ(std::ranges::count(model.mlp_kinds, MlpKind::sparse), 1);
  config["layer_types"] = json(4, "full_attention");
  config["attention_chunk_size"] = nullptr;
  EXPECT_TRUE(exported_again(config).layer_kinds.empty());
  config["moe_layers"] = json::array();
  config["num_local_experts"] = 0;
  EXPECT_EQ(exported_again(config).experts, 0);
}

TEST(Llama4, MissingKeysAreThoseOfItsClass) {
  json config = golden_config("hf_llama4");
  for (const char* key :
       {"no_rope_layer_interval", "no_rope_layers", "layer_types", "moe_layers", "interleave_moe_layer_step", "attention_chunk_size",
        "use_qk_norm", "attn_temperature_tuning", "attn_scale", "floor_scale", "num_local_experts", "num_experts_per_tok",
        "intermediate_size_mlp", "head_dim", "rms_norm_eps", "rope_parameters", "num_key_value_heads"})
    config.erase(key);
  config["num_attention_heads"] = 8;
  const ModelConfig model = parse(config).model;
  EXPECT_EQ(model.attention_chunk, 8192);
  EXPECT_TRUE(model.use_qk_norm);
  EXPECT_TRUE(model.attn_temperature_tuning);
  EXPECT_EQ(model.attn_scale, 0.1);
  EXPECT_EQ(model.floor_scale, 8192);
  EXPECT_EQ(model.experts, 16);
  EXPECT_EQ(model.experts_per_token, 1);
  EXPECT_EQ(model.intermediate_size, 16384);
  EXPECT_EQ(model.head_dim, 128);
  EXPECT_EQ(model.kv_heads, 8);
  EXPECT_EQ(model.rms_norm_eps, 1e-5);
  EXPECT_EQ(model.rope.theta, 5e5);
}

TEST(Llama4, SwitchesMayBeNumbers) {
  json config = golden_config("hf_llama4");
  const ModelConfig model = parse(config).model;
  config["attn_temperature_tuning"] = 4;  // in files of version 4
  EXPECT_EQ(parse(config).model, model);
  config["attn_temperature_tuning"] = 0;
  config["use_qk_norm"] = false;
  const ModelConfig plain = exported_again(config);
  EXPECT_FALSE(plain.attn_temperature_tuning);
  EXPECT_EQ(resolve(plain).layers[0].attention().norm, QueryKeyNorm::none);
  EXPECT_FALSE(resolve(plain).layers[3].attention().temperature);
}

TEST(Llama4, RefusesWhatItDoesNotCompute) {
  const json config = golden_config("hf_llama4");
  expect_value_refused(config, "is_causal", false, "supported is true");
  expect_value_refused(config, "no_rope_layers", {1, 0}, "expected a list of 4 numbers");
  expect_value_refused(config, "no_rope_layers", {1, 2, 1, 0}, "expected a list of 4 numbers");
  expect_value_refused(config, "layer_types", {"full_attention"}, "expected a list of 4 strings");
  expect_value_refused(config, "layer_types", {"full_attention", "sliding_attention", "full_attention", "full_attention"},
                       "\"chunked_attention\"");
  expect_value_refused(config, "moe_layers", {4}, "expected a list of layers from 0 to 3");
  expect_value_refused(config, "num_experts_per_tok", 5, "expected at most the number of experts, 4");
  expect_value_refused(config, "num_local_experts", 0, "some layers have experts");
  expect_value_refused(config, "floor_scale", 0, "expected");
  json endless = config;
  endless["attention_chunk_size"] = nullptr;
  expect_error([&] { (void)parse(endless); }, ExitCode::model, {"attention_chunk_size", "some layers attend to their own chunk"});
}

TEST(Llama4, MaxTextsKeysSayTheSame) {
  json config = golden_config("maxtext_llama4");
  ModelConfig model = exported_again(config);
  EXPECT_EQ(model.layer_positions, (std::vector{rotary, rotary, rotary, no_rotation}));
  EXPECT_EQ(model.layer_kinds, (std::vector{chunked, chunked, chunked, full}));
  EXPECT_EQ(model.attention_chunk, 5);
  EXPECT_TRUE(model.use_qk_norm);
  EXPECT_TRUE(model.attn_temperature_tuning);
  EXPECT_TRUE(model.mlp_kinds.empty());
  EXPECT_EQ(resolve(model).layers[0].attention().norm, QueryKeyNorm::after_rotation);
  EXPECT_TRUE(std::get<ExpertsSpec>(resolve(model).layers[0].ffn).scale_input);

  config["interleave_moe_layer_step"] = 2;  // Maverick
  config["use_qk_norm"] = false;
  config["mlp_dim"] = config["base_mlp_dim"] = 20;
  model = exported_again(config);
  EXPECT_EQ(model.mlp_kinds, (std::vector{MlpKind::dense, MlpKind::sparse, MlpKind::dense, MlpKind::sparse}));
  EXPECT_EQ(resolve(model).layers[0].attention().norm, QueryKeyNorm::none);
  EXPECT_EQ(resolve(model).layers[0].mlp().width, 20);
  config["nope_layer_interval"] = -1;
  EXPECT_TRUE(exported_again(config).layer_positions.empty());
  config["interleave_moe_layer_step"] = 7;
  EXPECT_EQ(exported_again(config).mlp_kinds, std::vector(4, MlpKind::dense));

  expect_value_refused(config, "chunk_attn_window_size", 0, "attend to their own chunk");
  expect_value_refused(config, "num_experts_per_tok", 2, "supported is 1");
  expect_value_refused(config, "shared_experts", 0, "supported is 1");
  model.floor_scale = 5;
  expect_error([&] { (void)config_file_text({model}, "float32"); }, ExitCode::model, {"cannot express model.floor_scale = 5"});
}

}  // namespace
}  // namespace millrace::layers
