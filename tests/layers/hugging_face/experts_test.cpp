#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "layers/formats/config_file.hpp"
#include "layers/models/model.hpp"
#include "tests/layers/golden_config.hpp"
#include "tests/support/expect_error.hpp"

// The keys of mixtures of experts in config.json, as transformers' classes read them.
namespace millrace::layers {
namespace {

using nlohmann::json;
using tests::expect_error;

const ExpertsSpec* experts_of(const ModelConfig& model, std::size_t layer) {
  static ModelSpec spec;
  spec = resolve(model);
  return std::get_if<ExpertsSpec>(&spec.layers.at(layer).ffn);
}

TEST(ExpertKeys, AreThoseOfTheClass) {
  const ModelConfig mixtral = parse(golden_hugging_face("mixtral")).model;
  EXPECT_EQ(mixtral.experts, 4);
  EXPECT_EQ(mixtral.experts_per_token, 2);
  ASSERT_NE(experts_of(mixtral, 2), nullptr);
  EXPECT_EQ(experts_of(mixtral, 2)->expert.width, 64) << "Mixtral's intermediate_size is an expert's";
  EXPECT_TRUE(experts_of(mixtral, 2)->route.normalise);

  const ModelConfig qwen = parse(golden_hugging_face("qwen3_moe")).model;
  EXPECT_EQ(qwen.experts, 8);
  EXPECT_EQ(qwen.moe_intermediate_size, 24);
  EXPECT_EQ(experts_of(qwen, 0)->expert.width, 24);
}

TEST(ExpertKeys, HaveTheDefaultsOfTheClass) {
  json config = golden_hugging_face("qwen3_moe");
  for (const char* key : {"num_local_experts", "num_experts_per_tok", "moe_intermediate_size", "norm_topk_prob", "decoder_sparse_step"})
    config.erase(key);
  const ModelConfig model = parse(config).model;
  EXPECT_EQ(model.experts, 128);
  EXPECT_EQ(model.experts_per_token, 8);
  EXPECT_EQ(model.moe_intermediate_size, 768);
  EXPECT_FALSE(model.norm_topk_prob);

  json mixtral = golden_hugging_face("mixtral");
  for (const char* key : {"num_local_experts", "num_experts_per_tok"}) mixtral.erase(key);
  EXPECT_EQ(parse(mixtral).model.experts, 8);
  EXPECT_EQ(parse(mixtral).model.experts_per_token, 2);
}

TEST(ExpertKeys, TheirNumberHasTwoNames) {
  json config = golden_hugging_face("qwen3_moe");
  config.erase("num_local_experts");
  config["num_experts"] = 6;
  EXPECT_EQ(parse(config).model.experts, 6);
  config["num_local_experts"] = 5;
  expect_error([&] { (void)parse(config); }, ExitCode::model, {"num_experts = 6", "contradicts num_local_experts = 5"});
}

TEST(ExpertKeys, SomeLayersAreDense) {
  json config = golden_hugging_face("qwen3_moe");
  config["decoder_sparse_step"] = 2;
  ModelConfig model = parse(config).model;
  EXPECT_EQ(model.mlp_kinds, (std::vector{MlpKind::dense, MlpKind::sparse, MlpKind::dense}));
  EXPECT_EQ(experts_of(model, 0), nullptr);
  EXPECT_NE(experts_of(model, 1), nullptr);
  config["mlp_only_layers"] = {1, 7};
  EXPECT_EQ(parse(config).model.mlp_kinds, std::vector(3, MlpKind::dense));
  config["decoder_sparse_step"] = 1;
  model = parse(config).model;
  EXPECT_EQ(model.mlp_kinds, (std::vector{MlpKind::sparse, MlpKind::dense, MlpKind::sparse}));
  config["mlp_only_layers"] = "none";
  expect_error([&] { (void)parse(config); }, ExitCode::model, {"mlp_only_layers = \"none\"", "expected a list of layers"});
}

TEST(ExpertKeys, WithoutExpertsTheModelIsDense) {
  json config = golden_hugging_face("qwen3_moe");
  config["num_local_experts"] = 0;
  const ModelConfig model = parse(config).model;
  EXPECT_EQ(model.experts, 0);
  EXPECT_EQ(experts_of(model, 0), nullptr);
}

TEST(ExpertKeys, WindowsAreThoseOfTheClass) {
  json mixtral = golden_hugging_face("mixtral");
  mixtral["sliding_window"] = 5;
  EXPECT_EQ(parse(mixtral).model.layer_kinds, std::vector(3, LayerKind::sliding));
  mixtral.erase("sliding_window");
  EXPECT_EQ(parse(mixtral).model.sliding_window, 0);
  json qwen = golden_hugging_face("qwen3_moe");
  qwen["use_sliding_window"] = true;
  qwen["sliding_window"] = 7;
  EXPECT_EQ(parse(qwen).model.layer_kinds, std::vector(3, LayerKind::sliding)) << "max_window_layers means nothing in this class";
}

TEST(ExpertKeys, WhatIsNotAppliedIsSaid) {
  json config = golden_hugging_face("mixtral");
  config["router_jitter_noise"] = 0.1;
  config["output_router_logits"] = true;
  const std::vector<std::string> warnings = parse(config).warnings;
  ASSERT_EQ(warnings.size(), 2U);
  EXPECT_NE(warnings[0].find("router_jitter_noise is not applied"), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[1].find("router_aux_loss_coef = 0.001 add no balance loss"), std::string::npos) << warnings[1];
  config["num_experts_per_tok"] = 9;
  expect_error([&] { (void)parse(config); }, ExitCode::model, {"num_experts_per_tok = 9", "expected at most the number of experts, 4"});
}

TEST(ExpertKeys, GptOssHasItsClassesDefaults) {
  json config = golden_hugging_face("gpt_oss");
  for (const char* key : {"num_local_experts", "num_experts_per_tok", "swiglu_limit", "swiglu_alpha", "layer_types", "rope_parameters",
                          "attention_bias", "num_attention_heads", "num_key_value_heads", "head_dim", "sliding_window", "vocab_size",
                          "max_position_embeddings", "rms_norm_eps", "initializer_range"})
    config.erase(key);
  const ConfigFile file = parse(config);
  EXPECT_TRUE(file.warnings.empty()) << file.warnings.front();
  const ModelConfig& model = file.model;
  EXPECT_EQ(model.experts, 128);
  EXPECT_EQ(model.experts_per_token, 4);
  EXPECT_EQ(model.swiglu_limit, 7);
  EXPECT_EQ(model.swiglu_alpha, 1.702);
  EXPECT_EQ(model.layer_kinds, (std::vector{LayerKind::sliding, LayerKind::full, LayerKind::sliding}));
  EXPECT_EQ(model.sliding_window, 128);
  EXPECT_TRUE(model.attention_bias);
  EXPECT_EQ(model.heads, 64);
  EXPECT_EQ(model.kv_heads, 8);
  EXPECT_EQ(model.head_dim, 64);
  EXPECT_EQ(model.vocab_size, 201088);
  EXPECT_EQ(model.max_position_embeddings, 131072);
  EXPECT_EQ(model.rms_norm_eps, 1e-5);
  EXPECT_EQ(model.rope,
            (RopeConfig{.kind = RopeKind::yarn, .theta = 150000, .factor = 32, .original_max_position = 4096, .truncate = false}));
  const ModelSpec spec = resolve(model);
  const auto& experts = std::get<ExpertsSpec>(spec.layers[0].ffn);
  EXPECT_TRUE(experts.router_bias && experts.expert.bias);
  EXPECT_EQ(experts.expert.clamp, (kernels::ClampedGluOptions{7.0F, 1.702F, 1.0F}));
  EXPECT_TRUE(spec.layers[0].attention().sinks && spec.layers[0].attention().qkv_bias && spec.layers[0].attention().out_bias);
  EXPECT_EQ(spec.layers[0].attention().window, 128);
  EXPECT_EQ(spec.layers[1].attention().window, 0);
}

TEST(ExpertKeys, GptOssReadsItsOwnKeys) {
  json config = golden_hugging_face("gpt_oss");
  config["swiglu_limit"] = 2.5;
  config["swiglu_alpha"] = 1.5;
  config["attention_bias"] = false;
  config["layer_types"] = {"full_attention", "sliding_attention", "sliding_attention"};
  // Keys of the published files that the class does not read.
  config["experts_per_token"] = 4;
  config["initial_context_length"] = 4096;
  const ConfigFile file = parse(config);
  EXPECT_TRUE(file.warnings.empty()) << file.warnings.front();
  EXPECT_EQ(file.model.swiglu_limit, 2.5);
  EXPECT_EQ(file.model.swiglu_alpha, 1.5);
  EXPECT_FALSE(resolve(file.model).layers[0].attention().qkv_bias);
  EXPECT_EQ(resolve(file.model).layers[0].attention().window, 0);
  EXPECT_EQ(resolve(file.model).layers[1].attention().window, 4);

  config["hidden_act"] = "gelu";
  ASSERT_EQ(parse(config).warnings.size(), 1U);
  EXPECT_NE(parse(config).warnings[0].find("hidden_act = \"gelu\" is not read by transformers in GptOssForCausalLM"), std::string::npos);
  const auto refused = [&](const char* key, const json& value, std::vector<std::string> words) {
    json changed = golden_hugging_face("gpt_oss");
    changed[key] = value;
    expect_error([&] { (void)parse(changed); }, ExitCode::model, words);
  };
  refused("swiglu_limit", 0, {"swiglu_limit = 0"});
  refused("num_local_experts", 0, {"num_local_experts = 0", "every layer has experts"});
  refused("sliding_window", nullptr, {"sliding_window", "layer_types has sliding layers"});
  refused("quantization_config", {{"quant_method", "mxfp4"}}, {"quantization_config", "fp32, fp16 and bf16"});
}

/// Versions 4 and 5 of transformers differ on null where the class has a scaled rotation of its own.
TEST(ExpertKeys, GptOssRotationsAreOfBothVersions) {
  json config = golden_hugging_face("gpt_oss");
  config.erase("rope_parameters");
  config["rope_scaling"] = nullptr;
  expect_error([&] { (void)parse(config); }, ExitCode::model, {"rope_scaling", "expected a dictionary with rope_type"});
  config["rope_scaling"] = {{"rope_type", "default"}};
  config["rope_theta"] = 5000;
  const ConfigFile file = parse(config);
  EXPECT_EQ(file.model.rope, (RopeConfig{.theta = 5000}));
  EXPECT_EQ(parse_config_file(config_file_text(file, "float32"), "export").model, file.model);
}

TEST(ExpertKeys, ExportIsReadBack) {
  json dense_layers = golden_hugging_face("qwen3_moe");
  dense_layers["mlp_only_layers"] = {0};
  dense_layers["norm_topk_prob"] = false;
  json window = golden_hugging_face("mixtral");
  window["sliding_window"] = 5;
  json none = golden_hugging_face("qwen3_moe");
  none["num_local_experts"] = 0;
  json clamped = golden_hugging_face("gpt_oss");
  clamped["swiglu_limit"] = 2.5;
  clamped["swiglu_alpha"] = 1.5;
  clamped["attention_bias"] = false;
  for (const json& config : {dense_layers, window, none, golden_hugging_face("gpt_oss"), clamped}) {
    const ConfigFile file = parse(config);
    const std::string text = config_file_text(file, "bfloat16");
    EXPECT_EQ(parse_config_file(text, "export").model, file.model) << text;
  }
}

/// A token computes with K of E experts, so that many of their weights are active.
TEST(ExpertKeys, ActiveParametersAreThoseOfATokensExperts) {
  const ModelConfig model = parse(golden_hugging_face("qwen3_moe")).model;
  const std::int64_t expert = 3 * 24 * 32, per_layer = 8 * expert;
  const auto [all, active] = parameter_counts(model_parameters(model));
  EXPECT_EQ(all, count_parameters(model));
  EXPECT_EQ(all - active, 3 * (per_layer - 2 * expert));
}

}  // namespace
}  // namespace millrace::layers
