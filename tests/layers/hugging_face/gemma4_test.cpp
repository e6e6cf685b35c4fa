#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "layers/formats/config_file.hpp"
#include "layers/models/model.hpp"
#include "tests/layers/golden_config.hpp"
#include "tests/support/expect_error.hpp"

// The keys of Gemma 4's config.json, as transformers' class reads them, and MaxText's.
namespace millrace::layers {
namespace {

using nlohmann::json;
using tests::expect_error;

using LayerKind::full;
using LayerKind::sliding;

ConfigFile again(const json& config) {
  ConfigFile file = parse(config);
  EXPECT_TRUE(file.warnings.empty()) << file.warnings[0];
  const std::string text = config_file_text(file, "float32");
  EXPECT_EQ(parse_config_file(text, "again").model, file.model) << text;
  EXPECT_TRUE(parse_config_file(text, "again").warnings.empty()) << text;
  return file;
}

void expect_refused(const json& config, const char* key, const json& value, const char* says) {
  json changed = config;
  changed[key] = value;
  expect_error([&] { (void)parse(changed); }, ExitCode::model, {"config.json: ", key, says});
}

json changed(json config, const json& changes) {
  config.update(changes);
  return config;
}

TEST(Gemma4, FullLayersHaveHeadsOfTheirOwn) {
  const ModelConfig model = again(golden_config("hf_gemma4")).model;
  EXPECT_EQ(model.global_head_dim, 16);
  EXPECT_EQ(model.global_kv_heads, 1);
  EXPECT_TRUE(model.share_kv);
  EXPECT_EQ(model.rope, (RopeConfig{.kind = RopeKind::proportional, .theta = 1e6, .proportion = 0.25}));
  EXPECT_EQ(model.rope_local, (RopeConfig{.theta = 1e4}));
  EXPECT_EQ(model.experts, 4);
  EXPECT_EQ(model.experts_per_token, 2);
  EXPECT_EQ(model.final_logit_softcapping, 30);

  const ModelSpec spec = resolve(model);
  const AttentionSpec &local = spec.layers[0].attention(), &global = spec.layers[5].attention();
  EXPECT_EQ(local.head_dim, 8);
  EXPECT_EQ(local.kv_heads, 2);
  EXPECT_FALSE(local.share_kv);
  EXPECT_EQ(local.window, 4);
  EXPECT_EQ(global.head_dim, 16);
  EXPECT_EQ(global.kv_heads, 1);
  EXPECT_TRUE(global.share_kv);
  for (const AttentionSpec* each : {&local, &global}) {
    EXPECT_EQ(each->scale, 1);
    EXPECT_TRUE(each->value_norm);
    EXPECT_EQ(each->norm, QueryKeyNorm::per_head);
  }
  const auto& experts = std::get<ExpertsSpec>(spec.layers[0].ffn);
  EXPECT_TRUE(experts.branch && experts.expert_scales && experts.route.normalise);
  EXPECT_EQ(experts.shared.value().width, 64);
  EXPECT_EQ(experts.expert.width, 16);
  EXPECT_EQ(spec.layers[0].scalar, LayerScalar::frozen);
  EXPECT_EQ(spec.norm.offset, 0);
}

/// Files before per_layer_config have the sizes of full layers in keys of their own.
TEST(Gemma4, OlderKeysSayTheSame) {
  json older = golden_config("hf_gemma4");
  older.erase("per_layer_config");
  older.update({{"global_head_dim", 16}, {"num_global_key_value_heads", 1}});
  EXPECT_EQ(again(older).model, parse(golden_config("hf_gemma4")).model);
  json both = golden_config("hf_gemma4");
  both.update({{"global_head_dim", 16}, {"num_global_key_value_heads", 1}});
  EXPECT_EQ(again(both).model, parse(golden_config("hf_gemma4")).model);
  // transformers does not read the number of heads where values have a projection of their own.
  older["attention_k_eq_v"] = false;
  EXPECT_EQ(again(older).model.global_kv_heads, 0);
  older.erase("global_head_dim");
  EXPECT_EQ(again(older).model.global_head_dim, 512);
  // Without an entry for a layer it has the sizes of the file.
  EXPECT_EQ(again(changed(golden_config("hf_gemma4"), {{"per_layer_config", json::object()}})).model.global_head_dim, 0);
  EXPECT_EQ(again(changed(golden_config("hf_gemma4"), {{"per_layer_config", nullptr}})).model.global_head_dim, 0);
  json experts = golden_config("hf_gemma4");
  experts["expert_intermediate_size"] = experts["moe_intermediate_size"];
  experts.erase("moe_intermediate_size");
  EXPECT_EQ(again(experts).model, parse(golden_config("hf_gemma4")).model);
}

TEST(Gemma4, MissingKeysAreThoseOfTheClass) {
  const json least{{"model_type", "gemma4_text"}, {"hidden_size", 32}, {"intermediate_size", 48}, {"num_hidden_layers", 8}};
  const ModelConfig model = again(least).model;
  EXPECT_EQ(model.vocab_size, 262144);
  EXPECT_EQ(model.heads, 8);
  EXPECT_EQ(model.kv_heads, 4);
  EXPECT_EQ(model.head_dim, 256);
  EXPECT_EQ(model.global_head_dim, 512);
  EXPECT_EQ(model.sliding_window, 512);
  EXPECT_EQ(model.per_layer_input_size, 256);
  EXPECT_EQ(model.per_layer_vocab_size, 262144);
  EXPECT_EQ(model.max_position_embeddings, 131072);
  EXPECT_EQ(model.final_logit_softcapping, 0);
  EXPECT_TRUE(model.tie_word_embeddings);
  // transformers gives the last layer full attention, wherever the pattern of six ends.
  EXPECT_EQ(model.layer_kinds, (std::vector{sliding, sliding, sliding, sliding, sliding, full, sliding, full}));
  EXPECT_EQ(model.rope, (RopeConfig{.kind = RopeKind::proportional, .theta = 1e6, .proportion = 0.25}));
}

TEST(Gemma4, LastLayersShareKeysWithTheLastOfTheirKind) {
  const ConfigFile file = again(golden_config("hf_gemma4_small"));
  const ModelSpec spec = resolve(file.model);
  EXPECT_EQ(file.model.kv_shared_layers, 2);
  const auto keys_of = [&](std::size_t layer) { return spec.layers[layer].attention().keys_of; };
  for (const std::size_t layer : {0U, 1U, 2U}) EXPECT_FALSE(keys_of(layer)) << layer;
  EXPECT_EQ(keys_of(3), 2);
  EXPECT_EQ(keys_of(4), 1);
  EXPECT_EQ(spec.layers[2].mlp().width, 20);
  EXPECT_EQ(spec.layers[3].mlp().width, 40);
  EXPECT_EQ(spec.per_layer_inputs, (PerLayerInputsSpec{.vocab_size = 96, .width = 4}));
  // What passes from layer 3 to layer 4: the stream, the last layer's input, and the keys that the last layer shares.
  const std::vector<runtime::ValueType> ports = boundary_types(file.model, 4, {.rows = 1, .sequence = 7});
  std::vector<std::int64_t> widths;
  for (const auto& port : ports) widths.push_back(port.shape[1]);
  EXPECT_EQ(widths, (std::vector<std::int64_t>{24, 4, 16, 16}));
  EXPECT_EQ(boundary_types(file.model, 5, {.rows = 1, .sequence = 7}).size(), 1U);
  json plain = golden_config("hf_gemma4_small");
  plain.update({{"num_kv_shared_layers", 0}, {"hidden_size_per_layer_input", 0}});
  EXPECT_FALSE(again(plain).model.double_wide_mlp);
  EXPECT_EQ(boundary_types(again(plain).model, 4, {}).size(), 1U);
}

/// A mask for images has no effect on text.
TEST(Gemma4, ReadsTheMaskOfImages) {
  const json vision = changed(golden_config("hf_gemma4"), {{"use_bidirectional_attention", "vision"}});
  EXPECT_EQ(again(vision).model, parse(golden_config("hf_gemma4")).model);
  expect_refused(golden_config("hf_gemma4"), "use_bidirectional_attention", "all", "supported are null and \"vision\"");
}

TEST(Gemma4, RefusesWhatItDoesNotCompute) {
  const json config = golden_config("hf_gemma4"), small = golden_config("hf_gemma4_small");
  expect_refused(config, "layer_types", json(5, "full_attention"), "expected a list of 6 strings");
  json ends = config;
  ends["layer_types"] = {"full_attention",    "full_attention",    "full_attention",
                         "sliding_attention", "sliding_attention", "sliding_attention"};
  expect_error([&] { (void)parse(ends); }, ExitCode::model, {"layer_types", "expected \"full_attention\" as the last entry"});
  expect_refused(config, "per_layer_config", {{"0", {{"head_dim", 16}}}}, "supported are numbers of layers with full attention");
  expect_refused(config, "per_layer_config", {{"6", {{"head_dim", 16}}}}, "supported are numbers of layers with full attention");
  expect_refused(config, "per_layer_config", {{"5", {{"intermediate_size", 16}}}}, "intermediate_size");
  expect_refused(config, "per_layer_config", {{"5", {{"head_dim", 15}}}}, "expected an even number");
  expect_refused(config, "per_layer_config", {{"5", {{"num_key_value_heads", 3}}}}, "expected a divisor of num_attention_heads = 4");
  json mixed = config;
  mixed["layer_types"][0] = "full_attention";
  expect_error([&] { (void)parse(mixed); }, ExitCode::model, {"per_layer_config", "expected the same head_dim"});
  expect_refused(config, "global_head_dim", 32, "which contradicts per_layer_config");
  expect_refused(config, "num_global_key_value_heads", 2, "which contradicts per_layer_config");
  expect_refused(config, "num_experts", 0, "expected 1 or more, since enable_moe_block is true");
  expect_refused(config, "top_k_experts", 5, "expected at most num_experts = 4");
  expect_refused(config, "moe_intermediate_size", nullptr, "expected 1 or more, since enable_moe_block is true");
  expect_refused(config, "rope_parameters", {{"full_attention", {{"rope_type", "default"}}}}, "expected sliding_attention in it");
  expect_refused(small, "num_kv_shared_layers", 5, "which leaves 0 of 5 layers");
  expect_refused(small, "num_kv_shared_layers", 4, "expected one of each kind");
  expect_refused(small, "vocab_size_per_layer_input", 0, "expected 1 or more");
  expect_refused(small, "hidden_size_per_layer_input", nullptr, "expected a number");
}

TEST(Gemma4, MaxTextsFilesSurvive) {
  for (const char* name : {"maxtext_gemma4", "maxtext_gemma4_small"}) (void)again(golden_config(name));
  const ModelConfig dense = parse(golden_config("maxtext_gemma4")).model, sparse = parse(golden_config("maxtext_gemma4_moe")).model;
  EXPECT_EQ(dense.global_head_dim, 16);
  EXPECT_EQ(dense.global_kv_heads, 1);
  EXPECT_TRUE(dense.share_kv);
  EXPECT_EQ(dense.experts, 0);
  EXPECT_EQ(dense.rope, (RopeConfig{.kind = RopeKind::proportional, .theta = 1e6, .proportion = 0.25}));
  EXPECT_EQ(sparse.global_head_dim, 0);  // that of the other layers
  EXPECT_EQ(sparse.experts, 4);
  EXPECT_EQ(resolve(dense).layers[0].scalar, LayerScalar::trained);
  EXPECT_EQ(std::get<ExpertsSpec>(resolve(sparse).layers[0].ffn).shared.value().width, 16);

  const ModelConfig small = parse(golden_config("maxtext_gemma4_small")).model;
  EXPECT_EQ(small.layer_kinds[4], full);
  EXPECT_EQ(resolve(small).layers[8].attention().keys_of, 3);
  EXPECT_EQ(resolve(small).layers[9].attention().keys_of, 4);
  // The name of the model says which layers are full.
  json six = golden_config("maxtext_gemma4_small");
  six.update({{"model_name", "gemma4-e4b"}, {"num_kv_shared_layers", 4}});
  EXPECT_EQ(again(six).model.layer_kinds[5], full);
  EXPECT_EQ(again(six).model.layer_kinds[4], sliding);
  expect_refused(golden_config("maxtext_gemma4_small"), "model_name", "gemma4-31b", "gemma4-e2b, gemma4-e4b");
  expect_refused(golden_config("maxtext_gemma4_small"), "num_kv_shared_layers", 6, "expected a sliding and a full one");
  expect_refused(golden_config("maxtext_gemma4_small"), "share_kv_projections", true, "supported is false");
  expect_refused(golden_config("maxtext_gemma4"), "model_name", "default", "gemma4-31b, gemma4-26b");
  expect_refused(golden_config("maxtext_gemma4"), "v_norm_with_scale", true, "supported is false");
  expect_refused(golden_config("maxtext_gemma4"), "global_head_dim", 15, "expected an even number");
  expect_refused(golden_config("maxtext_gemma4"), "global_num_kv_heads", 3, "expected 0 or a divisor of num_query_heads = 2");
  expect_refused(golden_config("maxtext_gemma4"), "rope_type", "llama3.1", "\"default\"");
  expect_refused(golden_config("maxtext_gemma4_moe"), "shared_experts", 0, "expected 1 or more with num_experts = 4");
}

/// As transformers and MaxText initialise them: the numbers of layers and experts, and the router's scales, are ones.
TEST(Gemma4, NumbersBeginAsOnes) {
  for (const char* name : {"hf_gemma4", "maxtext_gemma4_moe"})
    for (const ParameterSpec& spec : model_parameters(parse(golden_config(name)).model)) {
      const bool number = spec.name.ends_with("layer_scalar") || spec.name.ends_with("per_expert_scale") ||
                          spec.name.ends_with("router.scale") || spec.name.ends_with("pre_forward_scale_2");
      if (number) {
        EXPECT_EQ(spec.initial.kind, InitialKind::ones) << spec.name;
      }
      EXPECT_EQ(spec.trained, !spec.name.ends_with("layer_scalar") || std::string(name) != "hf_gemma4") << spec.name;
    }
}

}  // namespace
}  // namespace millrace::layers
