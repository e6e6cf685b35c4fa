#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "layers/formats/config_file.hpp"
#include "layers/models/model.hpp"
#include "tests/layers/golden_config.hpp"
#include "tests/support/expect_error.hpp"

// The keys of linear attention, gated heads and rotations of a part of a head in config.json, as transformers' classes read them.
namespace millrace::layers {
namespace {

using nlohmann::json;
using tests::expect_error;

/// The config with some keys removed.
json without(json config, std::initializer_list<const char*> keys) {
  for (const char* key : keys) config.erase(key);
  return config;
}

using LayerKind::full;
using LayerKind::linear;

TEST(LinearAttentionKeys, AreThoseOfTheClass) {
  const ConfigFile file = parse(golden_hugging_face("qwen3_5"));
  EXPECT_TRUE(file.warnings.empty()) << file.warnings[0];
  const ModelSpec model = resolve(file.model);
  const DeltaNetSpec expected{.key_heads = 2, .value_heads = 4, .key_head_dim = 8, .value_head_dim = 8, .taps = 4};
  for (const std::size_t layer : {0U, 1U, 2U}) EXPECT_EQ(std::get<DeltaNetSpec>(model.layers[layer].mixer), expected) << layer;
  const AttentionSpec& attention = model.layers[3].attention();
  EXPECT_TRUE(attention.output_gate);
  EXPECT_EQ(attention.norm, QueryKeyNorm::per_head);
  ASSERT_TRUE(attention.rope.has_value());
  EXPECT_EQ(attention.rope->proportion, 0.5);
  EXPECT_EQ(model.norm.offset, 1);
  EXPECT_FALSE(model.norm.round_first);
}

TEST(LinearAttentionKeys, HaveTheDefaultsOfTheClass) {
  const ModelConfig model = parse(without(golden_hugging_face("qwen3_5"),
                                          {"linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim",
                                           "linear_conv_kernel_dim", "layer_types", "head_dim", "num_attention_heads",
                                           "num_key_value_heads", "rope_parameters", "tie_word_embeddings"}))
                                .model;
  EXPECT_EQ(model.linear_key_heads, 16);
  EXPECT_EQ(model.linear_value_heads, 32);
  EXPECT_EQ(model.linear_key_head_dim, 128);
  EXPECT_EQ(model.linear_value_head_dim, 128);
  EXPECT_EQ(model.linear_conv_kernel_dim, 4);
  EXPECT_EQ(model.layer_kinds, (std::vector{linear, linear, linear, full}));
  EXPECT_EQ(model.head_dim, 256);
  EXPECT_EQ(model.heads, 16);
  EXPECT_EQ(model.kv_heads, 4);
  EXPECT_EQ(model.rope, (RopeConfig{.theta = 10000, .proportion = 0.25}));
  EXPECT_FALSE(model.tie_word_embeddings);
}

TEST(LinearAttentionKeys, LayersAreListedOrCounted) {
  json config = golden_hugging_face("qwen3_5");
  config["layer_types"] = {"full_attention", "linear_attention", "mamba", "attention"};
  config["full_attention_interval"] = 2;  // which the list overrides
  EXPECT_EQ(parse(config).model.layer_kinds, (std::vector{full, linear, linear, full}));
  config.erase("layer_types");
  EXPECT_EQ(parse(config).model.layer_kinds, (std::vector{linear, full, linear, full}));
  config["layer_types"] = {"full_attention", "full_attention", "full_attention", "full_attention"};
  EXPECT_EQ(parse(config).model.layer_kinds, std::vector(4, full));
}

TEST(LinearAttentionKeys, TheConvolutionHasTheActivationOfTheMlp) {
  json config = golden_hugging_face("qwen3_5");
  config["hidden_act"] = "gelu";
  const ModelSpec model = resolve(parse(config).model);
  EXPECT_EQ(std::get<DeltaNetSpec>(model.layers[0].mixer).activation, kernels::Activation::gelu_erf);
  EXPECT_EQ(model.layers[0].mlp().activation, kernels::Activation::gelu_erf);
}

/// In these classes heads are rotated in part by every kind of rotation, and the key may be in either place.
TEST(LinearAttentionKeys, APartOfAHeadIsRotated) {
  json config = without(golden_hugging_face("qwen3_5"), {"rope_parameters"});
  config["head_dim"] = 16;
  config["rope_theta"] = 1e6;
  config["partial_rotary_factor"] = 0.75;
  EXPECT_EQ(parse(config).model.rope, (RopeConfig{.theta = 1e6, .proportion = 0.75}));
  config["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32}};
  const ModelConfig model = parse(config).model;
  EXPECT_EQ(model.rope.kind, RopeKind::yarn);
  EXPECT_EQ(model.rope.proportion, 0.75);
  config["rope_scaling"]["partial_rotary_factor"] = 0.5;
  EXPECT_EQ(parse(config).model.rope.proportion, 0.5);
  EXPECT_TRUE(parse(config).warnings.empty()) << parse(config).warnings[0];
}

TEST(LinearAttentionKeys, WrongValuesAreRefused) {
  const auto refused = [](const json& changes, const std::vector<std::string>& says) {
    json config = golden_hugging_face("qwen3_5");
    config.merge_patch(changes);
    expect_error([&] { (void)parse(config); }, ExitCode::model, says);
  };
  refused({{"linear_num_value_heads", 5}}, {"linear_num_value_heads = 5", "expected a multiple of linear_num_key_heads = 2"});
  refused({{"linear_conv_kernel_dim", 17}}, {"linear_conv_kernel_dim = 17", "16"});
  refused({{"linear_key_head_dim", 0}}, {"linear_key_head_dim = 0"});
  refused({{"layer_types", {"linear_attention"}}}, {"layer_types = ", "expected a list of 4 strings"});
  refused({{"layer_types", {"sliding_attention", "full_attention", "full_attention", "full_attention"}}},
          {"layer_types", "supported by this family are \"linear_attention\" and \"full_attention\""});
  refused({{"attn_output_gate", false}}, {"attn_output_gate = false", "supported is true"});
  refused({{"hidden_act", "xielu"}}, {"hidden_act = \"xielu\"", "supported with linear attention are activations without them"});
  refused({{"rope_parameters", {{"partial_rotary_factor", 0.1}}}}, {"partial_rotary_factor = 0.1", "rotates no feature of head_dim = 8"});
  refused({{"rope_parameters", {{"partial_rotary_factor", 0.7}, {"rope_type", "yarn"}, {"factor", 2.0}}}},
          {"partial_rotary_factor = 0.7", "5 of head_dim = 8 features"});
  refused({{"rope_parameters", {{"mrope_section", {1, 1}}}}}, {"mrope_section = [1,1]", "expected three numbers of pairs"});
  refused({{"rope_parameters", {{"mrope_section", {1, 1, -1}}}}}, {"mrope_section = [1,1,-1]"});
  refused({{"rope_parameters", {{"mrope_interleaved", false}}}}, {"mrope_interleaved = false", "supported is true"});
}

TEST(LinearAttentionKeys, ExportIsReadBack) {
  json other = golden_hugging_face("qwen3_5");
  other["layer_types"] = {"full_attention", "linear_attention", "linear_attention", "linear_attention"};
  other["rope_parameters"] = {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 5e5}, {"partial_rotary_factor", 0.75}};
  json dense = golden_hugging_face("qwen3_5");
  dense["layer_types"] = std::vector<std::string>(4, "full_attention");
  for (const json& config : {golden_hugging_face("qwen3_5"), other, dense}) {
    const ConfigFile file = parse(config);
    const std::string text = config_file_text(file, "bfloat16");
    const ConfigFile again = parse_config_file(text, "export");
    EXPECT_EQ(again.model, file.model) << text;
    EXPECT_TRUE(again.warnings.empty()) << again.warnings[0];
  }
}

/// As transformers initialises them (modeling_qwen3_next.py, modeling_qwen3_5.py).
TEST(LinearAttentionKeys, InitialValuesAreThoseOfTheClass) {
  int found = 0;
  for (const ParameterSpec& spec : model_parameters(parse(golden_hugging_face("qwen3_5")).model)) {
    const auto is = [&](const char* end) { return spec.name.ends_with(end); };
    found += is(".A_log") || is(".dt_bias") || is("linear_attn.norm.weight") || is("layernorm.weight") || is("k_norm.weight") ? 1 : 0;
    if (is(".A_log")) {
      EXPECT_EQ(spec.initial, (Initial{.kind = InitialKind::log_uniform, .least = 0.01, .most = 16}));
    }
    if (is(".dt_bias") || is("linear_attn.norm.weight")) {
      EXPECT_EQ(spec.initial.kind, InitialKind::ones) << spec.name;
    }
    if (is("layernorm.weight") || is("k_norm.weight") || spec.name == "model.norm.weight") {
      EXPECT_EQ(spec.initial.kind, InitialKind::zeros) << spec.name;
    }
    if (is("conv1d.weight")) {
      EXPECT_EQ(spec.initial.kind, InitialKind::normal);
    }
  }
  EXPECT_EQ(found, 3 * 3 + 8 + 1);
}

}  // namespace
}  // namespace millrace::layers
