#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "layers/formats/config_file.hpp"
#include "layers/formats/model_folder.hpp"
#include "layers/models/model.hpp"
#include "tests/layers/golden_config.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"

// DeepSeek-V2 and V3: the keys of latent attention and of experts in config.json, as transformers' classes read them, and what is beside
// the model in checkpoints.
namespace millrace::layers {
namespace {

using nlohmann::json;
using tests::expect_error;

/// The golden model's config.json with some keys replaced, by null too.
json v3(const json& patch = json::object()) {
  json config = golden_config("hf_deepseek_v3");
  config.update(patch);
  return config;
}

/// DeepSeek-V2 Lite's form in the sizes of the golden model.
json v2(const json& patch = json::object()) {
  json config = v3({{"model_type", "deepseek_v2"},
                    {"architectures", {"DeepseekV2ForCausalLM"}},
                    {"q_lora_rank", 24},
                    {"norm_topk_prob", false},
                    {"topk_method", "greedy"},
                    {"scoring_func", "softmax"}});
  config.update(patch);
  return config;
}

/// Parses without warnings, and checks that the export is read as the same model.
ModelConfig model_of(const json& config) {
  const ConfigFile file = parse(config);
  EXPECT_TRUE(file.warnings.empty()) << file.warnings[0];
  const std::string text = config_file_text(file, "bfloat16");
  const ConfigFile again = parse_config_file(text, "export");
  EXPECT_EQ(again.model, file.model) << text;
  EXPECT_TRUE(again.warnings.empty()) << again.warnings[0];
  return file.model;
}

LatentAttentionSpec attention_of(const ModelConfig& model) { return std::get<LatentAttentionSpec>(resolve(model).layers.at(0).mixer); }
ExpertsSpec experts_of(const ModelConfig& model) { return std::get<ExpertsSpec>(resolve(model).layers.back().ffn); }

void expect_refused(const json& config, const char* key, const std::string& says) {
  SCOPED_TRACE(key);
  expect_error([&] { (void)parse(config); }, ExitCode::model, {std::string("config.json: ") + key, says});
}

/// Kimi K2's files name a model_type of their own and the class of DeepSeek-V3.
TEST(DeepSeekKeys, AreKimisToo) { EXPECT_EQ(model_of(v3({{"model_type", "kimi_k2"}})), model_of(v3())); }

TEST(DeepSeekKeys, AreThoseOfVersion3) {
  const ModelConfig model = model_of(v3());
  EXPECT_EQ(model.family, "deepseek_v3");
  EXPECT_EQ(model.head_dim, 8);
  EXPECT_EQ(model.first_dense_layers, 1);
  const ModelSpec spec = resolve(model);
  EXPECT_TRUE(std::holds_alternative<MlpSpec>(spec.layers[0].ffn));
  const auto attention = attention_of(model);
  EXPECT_EQ(attention.query_rank, 24);
  EXPECT_EQ(attention.kv_rank, 16);
  EXPECT_EQ(attention.nope_head_dim, 8);
  EXPECT_EQ(attention.rope_head_dim, 8);
  EXPECT_EQ(attention.v_head_dim, 8);
  EXPECT_TRUE(attention.interleaved);
  EXPECT_FALSE(attention.bias);
  const ExpertsSpec experts = experts_of(model);
  EXPECT_EQ(experts.experts, 8);
  EXPECT_EQ(experts.route, (kernels::RouteOptions{.experts_per_token = 3,
                                                  .score = kernels::RouterScore::sigmoid,
                                                  .bias = kernels::RouterBias::choice,
                                                  .groups = 4,
                                                  .kept_groups = 2,
                                                  .normalise = true,
                                                  .sum_epsilon = 1e-20F,
                                                  .scale = 2.5F}));
  EXPECT_FALSE(experts.route_bias_trained);
  EXPECT_EQ(experts.expert.width, 16);
  EXPECT_EQ(experts.shared.value().width, 16);
}

TEST(DeepSeekKeys, AreThoseOfVersion2) {
  ModelConfig model = model_of(v2({{"q_lora_rank", nullptr}, {"n_shared_experts", 2}, {"routed_scaling_factor", 1.0}}));
  EXPECT_EQ(model.family, "deepseek_v2");
  EXPECT_EQ(attention_of(model).query_rank, 0);
  EXPECT_TRUE(attention_of(model).interleaved);
  EXPECT_EQ(experts_of(model).route, (kernels::RouteOptions{.experts_per_token = 3, .group_best = 1}));
  EXPECT_EQ(experts_of(model).shared.value().width, 32);
  EXPECT_FALSE(experts_of(model).shared->bias);
  // Groups count where the method says so.
  model = model_of(v2({{"topk_method", "group_limited_greedy"}, {"mlp_bias", true}}));
  EXPECT_EQ(experts_of(model).route,
            (kernels::RouteOptions{.experts_per_token = 3, .groups = 4, .kept_groups = 2, .group_best = 1, .scale = 2.5F}));
  EXPECT_TRUE(resolve(model).layers[0].mlp().bias);
  EXPECT_TRUE(experts_of(model).shared->bias);
  EXPECT_FALSE(experts_of(model).expert.bias);
}

TEST(DeepSeekKeys, HaveTheDefaultsOfTheClass) {
  json config = v3();
  for (const char* key : {"q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "qk_head_dim", "head_dim",
                          "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size", "n_shared_experts", "n_group", "topk_group",
                          "routed_scaling_factor", "first_k_dense_replace", "norm_topk_prob", "rope_interleave", "num_key_value_heads"})
    config.erase(key);
  ModelConfig model = model_of(config);
  EXPECT_EQ(model.q_lora_rank, 1536);
  EXPECT_EQ(model.kv_lora_rank, 512);
  EXPECT_EQ(model.qk_nope_head_dim, 128);
  EXPECT_EQ(model.head_dim, 64);
  EXPECT_EQ(model.v_head_dim, 128);
  EXPECT_EQ(model.kv_heads, 4);
  EXPECT_EQ(model.experts, 256);
  EXPECT_EQ(model.experts_per_token, 8);
  EXPECT_EQ(model.moe_intermediate_size, 2048);
  EXPECT_EQ(model.shared_experts, 1);
  EXPECT_EQ(model.routing_groups, 8);
  EXPECT_EQ(model.kept_routing_groups, 4);
  EXPECT_EQ(model.routed_scaling_factor, 2.5);
  EXPECT_EQ(model.first_dense_layers, 3);
  EXPECT_TRUE(model.norm_topk_prob);
  EXPECT_TRUE(model.rope_interleaved);
  config["model_type"] = "deepseek_v2";
  config["num_experts_per_tok"] = 6;
  model = model_of(config);
  EXPECT_EQ(model.experts, 64);
  EXPECT_EQ(model.moe_intermediate_size, 1407);
  EXPECT_EQ(model.shared_experts, 2);
  EXPECT_EQ(model.first_dense_layers, 0);
  EXPECT_EQ(model.routed_scaling_factor, 1.0);
  EXPECT_EQ(model.routing_groups, 1);
}

/// mscale_all_dim alone scales the scores, and its ratio to mscale the rotation; without a scaled rotation it does nothing.
TEST(DeepSeekKeys, ScaleScoresAndRotation) {
  const auto scale_of = [](double mscale) {
    const double root = 0.1 * mscale * std::log(4.0) + 1.0;
    return static_cast<float>(root * root / 4.0);  // heads of 16
  };
  for (const json& base : {v3(), v2()}) {
    const auto model = [&](const json& patch) {
      json config = base;
      config["rope_parameters"].merge_patch(patch);
      return model_of(config);
    };
    EXPECT_FLOAT_EQ(attention_of(model(json::object())).scale, scale_of(1.0));
    EXPECT_EQ(model(json::object()).rope.attention_factor, 1.0);
    EXPECT_FLOAT_EQ(attention_of(model({{"mscale_all_dim", 0.707}, {"mscale", 0.707}})).scale, scale_of(0.707));
    const ModelConfig ratio = model({{"mscale_all_dim", 0.5}});
    EXPECT_FLOAT_EQ(attention_of(ratio).scale, scale_of(0.5));
    EXPECT_DOUBLE_EQ(ratio.rope.attention_factor, (0.1 * std::log(4.0) + 1) / (0.05 * std::log(4.0) + 1));
    EXPECT_EQ(attention_of(model({{"mscale_all_dim", 0}})).scale, 0.25F);
    EXPECT_EQ(model({{"mscale", nullptr}}).rope.attention_factor, 0) << "the rotation takes the factor's own value";
    json config = base;
    config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 500.0}};
    EXPECT_EQ(attention_of(model_of(config)).scale, 0.25F);
    config["rope_parameters"] = {{"rope_type", "linear"}, {"rope_theta", 500.0}, {"factor", 4.0}, {"mscale_all_dim", 1.0}};
    EXPECT_FLOAT_EQ(attention_of(model_of(config)).scale, scale_of(1.0));
  }
}

TEST(DeepSeekKeys, EveryValueIsComputed) {
  EXPECT_FALSE(attention_of(model_of(v3({{"rope_interleave", false}}))).interleaved);
  EXPECT_TRUE(attention_of(model_of(v3({{"attention_bias", true}}))).bias);
  EXPECT_FALSE(experts_of(model_of(v3({{"norm_topk_prob", false}}))).route.normalise);
  EXPECT_EQ(experts_of(model_of(v3({{"n_group", 1}, {"topk_group", 1}}))).route.groups, 1);
  EXPECT_EQ(resolve(model_of(v3({{"hidden_act", "relu"}}))).layers[0].mlp().activation, kernels::Activation::relu);
  EXPECT_EQ(model_of(v3({{"first_k_dense_replace", 9}})).first_dense_layers, 3) << "there are no more layers";
  EXPECT_EQ(attention_of(model_of(v3({{"rms_norm_eps", 1e-3}}))).norm_epsilon, 1e-6) << "of the class, whatever the file says";
  // Other names of the number of experts, and lists that agree with first_k_dense_replace.
  json config = v3({{"num_local_experts", 8}, {"mlp_layer_types", {"dense", "sparse", "sparse"}}, {"moe_layer_freq", 1}});
  config.erase("n_routed_experts");
  EXPECT_EQ(model_of(config), model_of(v3()));
}

TEST(DeepSeekKeys, WhatIsNotComputedIsRefused) {
  expect_refused(v3({{"n_routed_experts", 8}, {"num_experts", 6}}), "num_experts = 6", "contradicts n_routed_experts = 8");
  expect_refused(v3({{"n_shared_experts", nullptr}}), "n_shared_experts = null", "1 or more");
  expect_refused(v3({{"n_group", 3}}), "n_group = 3", "a divisor of the 8 experts");
  expect_refused(v3({{"n_group", 8}}), "n_group = 8", "groups of 1 of the 8 experts, expected 2 or more");
  expect_refused(v3({{"n_group", nullptr}}), "n_group", "expected a number of 1 or more");
  expect_refused(v3({{"topk_group", 5}}), "topk_group = 5", "of 4 groups");
  expect_refused(v3({{"num_experts_per_tok", 5}}), "num_experts_per_tok = 5", "at most 4 experts");
  expect_refused(v3({{"moe_layer_freq", 2}}), "moe_layer_freq = 2", "supported is 1");
  expect_refused(v3({{"mlp_layer_types", {"sparse", "sparse", "sparse"}}}), "mlp_layer_types", "\"dense\" for the first 1 of 3 layers");
  expect_refused(v3({{"scoring_func", "softmax"}}), "scoring_func = \"softmax\"", "\"sigmoid\"");
  expect_refused(v3({{"topk_method", "greedy"}}), "topk_method = \"greedy\"", "\"noaux_tc\"");
  expect_refused(v3({{"num_key_value_heads", 2}}), "num_key_value_heads = 2", "expected num_attention_heads = 4");
  expect_refused(v3({{"qk_head_dim", 24}}), "qk_head_dim = 24", "qk_nope_head_dim + qk_rope_head_dim = 16");
  expect_refused(v3({{"qk_rope_head_dim", 7}, {"qk_head_dim", 15}}), "qk_rope_head_dim = 7", "an even number");
  expect_refused(v3({{"kv_lora_rank", 0}}), "kv_lora_rank = 0", "from 1 to");
  expect_refused(v2({{"topk_method", "noaux_tc"}}), "topk_method = \"noaux_tc\"", "\"group_limited_greedy\"");
  expect_refused(v2({{"topk_method", "group_limited_greedy"}, {"n_group", nullptr}}), "n_group", "expected a number of 1 or more");
  expect_refused(v2({{"num_experts_per_tok", nullptr}}), "num_experts_per_tok", "");
}

TEST(DeepSeekKeys, WhatHasNoEffectIsSaid) {
  const auto warning = [](const json& config) {
    const std::vector<std::string> warnings = parse(config).warnings;
    EXPECT_EQ(warnings.size(), 1U);
    return warnings.empty() ? std::string() : warnings[0];
  };
  EXPECT_NE(warning(v2({{"norm_topk_prob", true}})).find("norm_topk_prob is not read by transformers"), std::string::npos);
  EXPECT_NE(warning(v2({{"rope_interleave", false}})).find("rope_interleave is not read by transformers"), std::string::npos);
}

std::vector<std::string> names_of(const ModelConfig& model, const std::string& prefix) {
  std::vector<std::string> names;
  for (const auto& spec : model_parameters(model))
    if (spec.name.starts_with(prefix) && !spec.name.ends_with("norm.weight")) names.push_back(spec.name.substr(prefix.size()));
  return names;
}

TEST(DeepSeekParameters, HaveTheCheckpointsNames) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(names_of(model_of(v3({{"attention_bias", true}})), "model.layers.0.self_attn."),
            (Names{"q_a_proj.weight", "q_a_proj.bias", "q_b_proj.weight", "kv_a_proj_with_mqa.weight", "kv_a_proj_with_mqa.bias",
                   "kv_b_proj.weight", "o_proj.weight", "o_proj.bias"}));
  EXPECT_EQ(names_of(model_of(v2({{"q_lora_rank", nullptr}})), "model.layers.0.self_attn."),
            (Names{"q_proj.weight", "kv_a_proj_with_mqa.weight", "kv_b_proj.weight", "o_proj.weight"}));
  EXPECT_EQ(names_of(model_of(v3()), "model.layers.1.mlp."),
            (Names{"gate.weight", "gate.e_score_correction_bias", "experts.gate_proj.weight", "experts.up_proj.weight",
                   "experts.down_proj.weight", "shared_experts.gate_proj.weight", "shared_experts.up_proj.weight",
                   "shared_experts.down_proj.weight"}));
  for (const auto& spec : model_parameters(model_of(v3())))
    EXPECT_EQ(spec.trained, !spec.name.ends_with("e_score_correction_bias")) << spec.name;
}

/// Weights that are read, written and read again. A checkpoint may have layers beyond the model's.
TEST(DeepSeekParameters, AreReadAndWritten) {
  const std::string golden = tests::source_path("tests/golden/hf_deepseek_v3");
  const ConfigFile file = read_config_file(golden);
  const auto specs = model_parameters(file.model);
  const FolderWeights weights(golden, file.model);
  std::map<std::string, std::vector<float>> values;
  for (const auto& spec : specs) {
    auto& one = values[spec.name];
    one.resize(static_cast<std::size_t>(spec.shape.elements()));
    weights.read(spec, one);
  }
  const auto reader = [&](const ParameterSpec& spec) { return std::span<const float>(values.at(spec.name)); };
  for (const kernels::DType dtype : {kernels::DType::f32, kernels::DType::bf16}) {
    const tests::TemporaryFolder folder;
    std::vector<ParameterSpec> more = specs;
    ParameterSpec further = specs.at(1);
    further.name = "model.layers.3.eh_proj.weight";
    values[further.name] = std::vector<float>(static_cast<std::size_t>(further.shape.elements()), 1.0F);
    more.push_back(further);
    write_weights(folder.path().string(), more, dtype, reader);
    const FolderWeights again(folder.path().string(), file.model);
    EXPECT_EQ(again.dtype(), dtype);
    for (const auto& spec : specs) {
      std::vector<float> found(values.at(spec.name).size());
      again.read(spec, found);
      // What is not trained keeps its bits in bf16 files too.
      if (dtype == kernels::DType::f32 || !spec.trained) {
        EXPECT_EQ(found, values.at(spec.name)) << spec.name;
      }
    }
    further.name = "model.layers.2.eh_proj.weight";
    values[further.name] = values.at("model.layers.3.eh_proj.weight");
    more.back() = further;
    const tests::TemporaryFolder other;
    write_weights(other.path().string(), more, dtype, reader);
    expect_error([&] { (void)FolderWeights(other.path().string(), file.model); }, ExitCode::model, {"model.layers.2.eh_proj.weight"});
  }
}

}  // namespace
}  // namespace millrace::layers
