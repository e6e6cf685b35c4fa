#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "layers/formats/config_file.hpp"
#include "layers/layer_spec.hpp"
#include "layers/models/model.hpp"
#include "tests/layers/golden_config.hpp"
#include "tests/support/expect_error.hpp"

// What MaxText's config.json says, key by key: read, or refused by name.
namespace millrace::layers {
namespace {

using nlohmann::json;
using tests::expect_error;

json maxtext(const std::string& name) { return golden_config("maxtext_" + name); }

TEST(ConfigFile, RejectsWhatItDoesNotComputeOfMaxText) {
  const json config = maxtext("llama2");
  const auto refused = [&](const char* key, const json& value, const char* says) {
    json changed = config;
    changed[key] = value;
    expect_error([&] { (void)parse(changed); }, ExitCode::model, {"config.json: " + std::string(key) + " = " + value.dump(), says});
  };
  refused("decoder_block", "deepseek4", "supported are \"default\"");
  refused("mtp_num_layers", -1, "expected");
  refused("num_experts", 8, "supported is 1");
  refused("use_qk_norm", true, "supported is false");
  refused("sliding_window_size", 128, "supported is 0");
  refused("rope_type", "yarn", "\"llama3.1\"");
  refused("mlp_activations", {"silu", "silu"}, "[f, \"linear\"]");
  refused("quantization", "int8", "supported is \"\"");
  refused("grad_dtype", "bfloat16", "supported is \"float32\"");
  refused("attention_output_dim", 48, "supported is -1");
  // Keys from which MaxText would derive other sizes.
  refused("base_emb_dim", 64, "expected emb_dim = 32");
  refused("base_num_decoder_layers", 6, "expected num_decoder_layers = 3");
  refused("global_parameter_scale", 3, "expected a power of 2");
  // Only null means off.
  for (const char* key : {"cast_logits_to_fp32", "num_experts", "rope_linear_scaling_factor", "attention_type"})
    refused(key, nullptr, "supported is");
  for (const char* key : {"normalize_embedding_logits", "rope_use_scale", "rope_max_timescale", "mlp_activations"})
    refused(key, nullptr, "expected a value");
  for (const char* key : {"attention_sink", "moba", "mtp_num_layers", "engram_layers", "nope_layer_interval"}) {
    json changed = config;
    changed[key] = nullptr;
    EXPECT_EQ(parse(changed).model, parse(config).model) << key;
  }
  // A cap of untied logits, which MaxText ignores.
  refused("final_logits_soft_cap", 30, "supported with logits_via_embedding = true");
}

/// In MaxText only the attention "dot_product" has blocks that queries choose.
TEST(ConfigFile, ReadsMobaOfMaxText) {
  json config = maxtext("llama2_moba");
  EXPECT_EQ(parse(config).model.moba_chunk_size, 4);
  EXPECT_EQ(parse(config).model.moba_topk, 2);
  for (const char* name : {"llama2", "gemma2", "gpt3", "olmo3"}) {
    json other = maxtext(name);
    other["attention"] = "dot_product";
    other["moba"] = true;
    const ModelConfig model = parse(other).model;
    EXPECT_EQ(model.moba_chunk_size, 1024) << name;
    EXPECT_EQ(model.moba_topk, 8) << name;
  }
  const auto refused = [&](const char* key, const json& value, const char* says) {
    json changed = config;
    changed[key] = value;
    expect_error([&] { (void)parse(changed); }, ExitCode::model, {"config.json: " + std::string(key) + " = " + value.dump(), says});
  };
  refused("attention", "flash", "supported with moba = true is attention = \"dot_product\"");
  refused("moba_chunk_size", 0, "expected");
  refused("moba_topk", 0, "expected");
  config["moba"] = false;
  EXPECT_EQ(parse(config).model.moba_chunk_size, 0);
  config["moba"] = true;
  config.erase("attention");
  expect_error([&] { (void)parse(config); }, ExitCode::model, {"config.json: moba = true", "dot_product"});
}

/// The sizes before MaxText's common factor.
TEST(ConfigFile, ReadsScaledSizesOfMaxText) {
  json config = maxtext("llama2");
  const ModelConfig model = parse(config).model;
  config["global_parameter_scale"] = 4;  // 2^2: wider and more heads, the same number of layers
  expect_error([&] { (void)parse(config); }, ExitCode::model, {"base_emb_dim = 32", "expected emb_dim = 32 / 2"});
  for (const char* key : {"base_emb_dim", "base_mlp_dim", "base_num_query_heads", "base_num_kv_heads"})
    config[key] = config[key].get<int>() / 2;
  EXPECT_EQ(parse(config).model, model);
}

/// MaxText's block does not pass a cap to its attention, so it would have no effect there.
TEST(ConfigFile, RejectsACapThatMaxTextsBlockLacks) {
  for (const char* name : {"default", "gpt3", "gemma", "mistral", "olmo3", "qwen2", "qwen3"}) {
    json config = maxtext(name);
    config["attn_logits_soft_cap"] = 5.0;
    expect_error([&] { (void)parse(config); }, ExitCode::model, {"attn_logits_soft_cap = 5.0", "is null; \"llama2\" has a cap"});
  }
  for (const char* name : {"llama2", "gemma2", "gemma3"}) {
    json config = maxtext(name);
    config["attn_logits_soft_cap"] = 5.0;
    EXPECT_EQ(parse(config).model.attn_logit_softcapping, 5.0) << name;
  }
}

TEST(ConfigFile, RejectsCudnnsDropout) {
  json config = maxtext("llama2");
  config["attention"] = "cudnn_flash_te";
  EXPECT_TRUE(parse(config).warnings.empty());
  config["dropout_rate"] = 0.1;
  expect_error([&] { (void)parse(config); }, ExitCode::model, {"attention = \"cudnn_flash_te\"", "dropout_rate"});
  config["enable_dropout"] = false;
  EXPECT_EQ(parse(config).model.dropout_rate, 0);
}

/// Toggles every switch and changes every number and name: the file is refused, gives another model, or the key has no effect. `read` are
/// keys that this block reads and others do not, `unread` the opposite.
void expect_no_key_passed_over(const json& config, const std::vector<std::string>& read, const std::vector<std::string>& unread) {
  std::vector<std::string> without_effect = {
      // parts that are off, and parts of other blocks
      "base_moe_mlp_dim", "capacity_factor", "enable_mhc_lite", "engram_head_dim", "engram_kernel_size", "engram_max_ngram_size",
      "engram_num_heads", "engram_seed", "float32_gate_logits", "float32_weight_sum", "gdn_chunk_size", "gdn_conv_kernel_dim",
      "gdn_key_head_dim", "gdn_num_key_heads", "gdn_num_value_heads", "gdn_value_head_dim", "global_head_dim", "global_num_kv_heads",
      "global_rope_max_timescale", "global_rope_proportion", "indexer_head_dim", "indexer_loss_scaling_factor", "indexer_n_heads",
      "indexer_sparse_training", "indexer_topk", "interleave_moe_layer_step", "kv_lora_rank", "local_rope_max_timescale", "megablox",
      "moe_expert_input_dim", "moe_mlp_dim", "mscale", "mtp_loss_scaling_factor", "n_routing_groups", "norm_topk_prob",
      "num_experts_per_tok", "param_scan_axis", "q_lora_rank", "qk_nope_head_dim", "qk_norm_with_scale", "qk_rope_head_dim", "routed_bias",
      "routed_bias_update_rate", "routed_scaling_factor", "routed_score_func", "sinkhorn_iterations", "sparse_matmul", "topk_routing_group",
      "use_qk_norm_in_gdn", "use_random_routing", "v_head_dim", "v_norm_with_scale",
      // yarn's numbers
      "beta_fast", "beta_slow", "original_max_position_embeddings", "rope_attention_scaling", "rope_factor", "rope_interleave",
      "rope_truncate",
      // layout, and values that the run decides
      "attention", "dense_init_scale", "dtype", "gradient_clipping_threshold", "matmul_precision", "max_target_length", "num_vocab_tiling",
      "scan_layers", "use_iota_embed", "weight_dtype",
      // the default of a name that does not mention rotation
      "model_name"};
  for (const std::string& key : read) std::erase(without_effect, key);
  without_effect.insert(without_effect.end(), unread.begin(), unread.end());
  const ConfigFile file = parse(config);
  for (const auto& [key, old] : config.items()) {
    json changed = config;
    if (old.is_boolean()) changed[key] = !old.get<bool>();
    if (old.is_number_integer()) changed[key] = old.get<int>() + 2;
    if (old.is_number_float()) changed[key] = old.get<double>() * 2 + 0.25;
    if (old.is_string()) changed[key] = "strange";
    if (old.is_null()) changed[key] = 5.0;
    if (changed == config) continue;  // lists
    try {
      const ConfigFile other = parse(changed);
      const bool listed = std::find(without_effect.begin(), without_effect.end(), key) != without_effect.end();
      const bool same = other.model == file.model && other.losses == file.losses;
      EXPECT_EQ(same, listed) << key << " = " << changed[key];
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(key), std::string::npos) << error.what();
    }
  }
}

TEST(ConfigFile, NoKeyOfMaxTextIsPassedOver) {
  const std::vector<std::string> unscaled{"rope_use_scale"};
  const std::vector<std::string> yarn{
      "beta_fast",       "beta_slow",    "original_max_position_embeddings", "rope_attention_scaling", "rope_factor",
      "rope_interleave", "rope_truncate"};
  expect_no_key_passed_over(maxtext("llama31_rope"), {}, {});
  for (const char* name : {"gemma", "mistral", "qwen2", "qwen3"}) expect_no_key_passed_over(maxtext(name), {}, unscaled);
  const std::vector<std::string> of_experts{"num_experts_per_tok", "float32_gate_logits", "norm_topk_prob", "routed_bias"};
  expect_no_key_passed_over(maxtext("mixtral"), of_experts, unscaled);
  // A capacity has an effect without the dropless path alone.
  expect_no_key_passed_over(
      maxtext("mixtral_capacity"),
      {"num_experts_per_tok", "float32_gate_logits", "norm_topk_prob", "routed_bias", "capacity_factor", "sparse_matmul"}, unscaled);
  expect_no_key_passed_over(maxtext("qwen3_moe"), of_experts, {"rope_use_scale", "mlp_dim"});
  std::vector<std::string> of_gpt_oss = yarn;
  of_gpt_oss.insert(of_gpt_oss.end(), of_experts.begin(), of_experts.end());
  expect_no_key_passed_over(maxtext("gpt_oss"), of_gpt_oss, unscaled);
  for (const char* name : {"gemma2", "gemma3"}) expect_no_key_passed_over(maxtext(name), {"local_rope_max_timescale"}, unscaled);
  expect_no_key_passed_over(maxtext("olmo3"), yarn, unscaled);
  std::vector<std::string> latent{"q_lora_rank", "kv_lora_rank",          "qk_nope_head_dim",    "qk_rope_head_dim", "v_head_dim",
                                  "mscale",      "num_experts_per_tok",   "float32_gate_logits", "moe_mlp_dim",      "base_moe_mlp_dim",
                                  "routed_bias", "routed_scaling_factor", "routed_score_func"};
  latent.insert(latent.end(), yarn.begin(), yarn.end());
  // The heads have widths of their own, and weights are never normalised by this key.
  const std::vector<std::string> unread{"rope_use_scale", "head_dim"};
  expect_no_key_passed_over(maxtext("deepseek_v2"), latent, unread);
  latent.insert(latent.end(), {"n_routing_groups", "topk_routing_group", "model_name", "routed_bias_update_rate"});
  expect_no_key_passed_over(maxtext("deepseek"), latent, unread);
  latent.insert(latent.end(),
                {"indexer_head_dim", "indexer_loss_scaling_factor", "indexer_n_heads", "indexer_sparse_training", "indexer_topk"});
  expect_no_key_passed_over(maxtext("deepseek_indexer"), latent, unread);
  std::vector<std::string> of_streams(latent.begin(), latent.end() - 5);
  of_streams.push_back("sinkhorn_iterations");
  of_streams.push_back("enable_mhc_lite");
  expect_no_key_passed_over(maxtext("deepseek_mhc"), of_streams, unread);
  json memories = maxtext("deepseek_engram");
  for (const char* derived : {"engram_multipliers_layer_0", "engram_multipliers_layer_2", "engram_primes_layer_0", "engram_primes_layer_2"})
    memories.erase(derived);
  of_streams.insert(of_streams.end(),
                    {"engram_head_dim", "engram_kernel_size", "engram_max_ngram_size", "engram_num_heads", "engram_seed"});
  expect_no_key_passed_over(memories, of_streams, unread);
  expect_no_key_passed_over(maxtext("llama2_moba"), {}, unscaled);
  const std::vector<std::string> of_gemma4{"global_head_dim", "global_num_kv_heads", "global_rope_max_timescale", "global_rope_proportion",
                                           "local_rope_max_timescale"};
  // Full layers rotate by their own base, and sliding ones by theirs.
  const std::vector<std::string> unread_by_gemma4{"rope_use_scale", "rope_max_timescale"};
  expect_no_key_passed_over(maxtext("gemma4_small"), of_gemma4, unread_by_gemma4);
  std::vector<std::string> unread_by_dense = unread_by_gemma4;  // which has no router, and an MLP that is no expert
  unread_by_dense.insert(unread_by_dense.end(), {"load_balance_loss_weight", "shared_experts"});
  expect_no_key_passed_over(maxtext("gemma4"), of_gemma4, unread_by_dense);
  std::vector<std::string> of_gemma4_experts = of_gemma4;
  of_gemma4_experts.insert(of_gemma4_experts.end(), of_experts.begin(), of_experts.end());
  of_gemma4_experts.insert(of_gemma4_experts.end(), {"moe_mlp_dim", "base_moe_mlp_dim"});
  expect_no_key_passed_over(maxtext("gemma4_moe"), of_gemma4_experts, unread_by_gemma4);
  expect_no_key_passed_over(maxtext("llama4"),
                            {"float32_gate_logits", "interleave_moe_layer_step", "moe_mlp_dim", "routed_bias", "routed_score_func"},
                            {"inhomogeneous_layer_cycle_interval", "norm_topk_prob"});
}

/// What a block has and others do not: the values that it supports are read, and written so that they are read again.
TEST(ConfigFile, ReadsAndWritesWhatABlockOfMaxTextHas) {
  const auto again = [](const json& config) {
    const ConfigFile file = parse(config);
    EXPECT_EQ(parse_config_file(config_file_text(file, "float32"), "again").model, file.model);
    return file.model;
  };
  json config = maxtext("gemma3");
  ModelConfig model = again(config);
  EXPECT_EQ(model.rope, (RopeConfig{.kind = RopeKind::linear, .theta = 1e6, .factor = 8}));
  EXPECT_EQ(model.rope_local, (RopeConfig{.theta = 1e4}));
  EXPECT_EQ(model.sliding_window, 4);
  EXPECT_EQ(std::ranges::count(model.layer_kinds, LayerKind::sliding), 5);
  EXPECT_EQ(model.layer_kinds.at(5), LayerKind::full);
  EXPECT_EQ(model.query_pre_attn_scalar, 0);  // that of the head
  config["local_rope_max_timescale"] = -1;    // sliding layers are not stretched even so
  EXPECT_EQ(again(config).rope_local, (RopeConfig{.theta = 1e6}));
  config["rope_linear_scaling_factor"] = 1.0;
  EXPECT_EQ(again(config).rope_local.theta, 0);
  config["model_name"] = "gemma3-27b";
  config["base_emb_dim"] = config["emb_dim"] = 25;  // 25 // 2 heads
  EXPECT_EQ(again(config).query_pre_attn_scalar, 12);

  config = maxtext("gemma2");
  EXPECT_TRUE(again(config).layer_kinds.empty());
  config["local_rope_max_timescale"] = 500;
  EXPECT_EQ(again(config).rope_local, (RopeConfig{.theta = 500}));

  config = maxtext("olmo3");
  RopeConfig yarn{.kind = RopeKind::yarn, .theta = 5e5, .factor = 4, .original_max_position = 64};
  EXPECT_EQ(again(config).rope, yarn);
  EXPECT_FALSE(again(config).rope_interleaved);
  config["rope_attention_scaling"] = false;
  config["rope_interleave"] = true;
  config["rope_truncate"] = false;
  yarn.attention_factor = 1;
  yarn.truncate = false;
  EXPECT_EQ(again(config).rope, yarn);
  EXPECT_TRUE(again(config).rope_interleaved);
  config["rope_type"] = "default";  // olmo3-7b-pt
  config["local_rope_max_timescale"] = 500;
  EXPECT_EQ(again(config).rope, (RopeConfig{.theta = 5e5}));
  EXPECT_EQ(again(config).rope_local, (RopeConfig{.theta = 500}));
}

TEST(ConfigFile, ReadsAndWritesMaxTextsExperts) {
  const auto again = [](const json& config) {
    const ConfigFile file = parse(config), other = parse_config_file(config_file_text(file, "float32"), "again");
    EXPECT_EQ(other.model, file.model);
    EXPECT_EQ(other.losses, file.losses);
    return file.model;
  };
  json config = maxtext("qwen3_moe");
  ModelConfig model = again(config);
  EXPECT_EQ(model.experts, 6);
  EXPECT_EQ(model.experts_per_token, 2);
  EXPECT_EQ(model.moe_intermediate_size, 14);
  EXPECT_TRUE(model.norm_topk_prob);
  EXPECT_EQ(model.routed_score, kernels::RouterScore::logit);
  EXPECT_EQ(model.routed_bias, kernels::RouterBias::none);
  EXPECT_EQ(parse(config).losses.balance_loss, 0.02);
  // An expert has its own width, and a dense layer's has no effect.
  config["base_moe_mlp_dim"] = config["moe_mlp_dim"] = 9;
  EXPECT_EQ(expert_width(again(config)), 9);
  config.erase("base_moe_mlp_dim");
  config.erase("moe_mlp_dim");
  EXPECT_EQ(expert_width(again(config)), 14);
  config["routed_score_func"] = "sqrtsoftplus";
  config["routed_bias"] = true;
  config["float32_gate_logits"] = true;
  model = again(config);
  EXPECT_EQ(model.routed_score, kernels::RouterScore::sqrt_softplus);
  EXPECT_EQ(model.routed_bias, kernels::RouterBias::score);
  EXPECT_TRUE(model.float32_gate_logits);
  // The choice between implementations of one computation.
  for (const char* key : {"sparse_matmul", "megablox"}) {
    json changed = config;
    changed[key] = !config[key].get<bool>();
    EXPECT_EQ(parse(changed).model, model) << key;
  }
}

TEST(ConfigFile, ReadsAndWritesMaxTextsClampedGate) {
  json config = maxtext("gpt_oss");
  config["mlp_activations_limit"] = 2.5;
  config["rope_truncate"] = true;
  const ConfigFile file = parse(config);
  EXPECT_EQ(parse_config_file(config_file_text(file, "float32"), "again").model, file.model);
  EXPECT_EQ(file.model.swiglu_limit, 2.5);
  EXPECT_EQ(file.model.layer_kinds, (std::vector{LayerKind::sliding, LayerKind::full}));
  EXPECT_EQ(file.model.sliding_window, 4);
  EXPECT_EQ(file.model.routed_bias, kernels::RouterBias::score);
  EXPECT_EQ(file.model.rope.kind, RopeKind::yarn);
  const auto refused = [&](const char* key, const json& value, const char* says) {
    json changed = maxtext("gpt_oss");
    changed[key] = value;
    expect_error([&] { (void)parse(changed); }, ExitCode::model, {"config.json: " + std::string(key) + " = " + value.dump(), says});
  };
  refused("mlp_activations", {"silu", "linear"}, "is [\"sigmoid\", \"linear\"]");
  refused("mlp_activations_limit", -1.0, "expected a number above 0");
  refused("attention_sink", false, "supported is true");
  refused("attention_bias", false, "supported is true");
  refused("mlp_bias", false, "supported is true");
  refused("inhomogeneous_layer_cycle_interval", 1, "supported is 2");
}

/// The name of the model decides what a router's bias is part of, and whether experts are chosen by groups.
TEST(ConfigFile, ReadsAndWritesMaxTextsDeepSeek) {
  const auto again = [](const json& config) {
    const ConfigFile file = parse(config), other = parse_config_file(config_file_text(file, "float32"), "again");
    EXPECT_EQ(other.model, file.model);
    EXPECT_EQ(other.losses, file.losses);
    return file.model;
  };
  ModelConfig model = again(maxtext("deepseek"));
  EXPECT_EQ(model.q_lora_rank, 14);
  EXPECT_EQ(model.kv_lora_rank, 10);
  EXPECT_EQ(model.qk_nope_head_dim, 6);
  EXPECT_EQ(model.v_head_dim, 5);
  EXPECT_EQ(model.first_dense_layers, 1);
  EXPECT_EQ(model.shared_experts, 1);
  EXPECT_EQ(model.routing_groups, 4);
  EXPECT_EQ(model.kept_routing_groups, 2);
  EXPECT_EQ(model.routed_bias, kernels::RouterBias::choice);
  EXPECT_EQ(model.routed_scaling_factor, 2.5);
  // The scale of scores: only where the context is longer than the original one.
  const auto scale = [](const ModelConfig& of) { return std::get<LatentAttentionSpec>(resolve(of).layers[0].mixer).scale; };
  const double root = 0.1 * std::log(4.0) + 1.0;
  EXPECT_FLOAT_EQ(scale(model), static_cast<float>(root * root / std::sqrt(14.0)));
  json config = maxtext("deepseek");
  config["max_position_embeddings"] = 64;
  EXPECT_FLOAT_EQ(scale(again(config)), static_cast<float>(1 / std::sqrt(14.0)));

  model = again(maxtext("deepseek_unprefixed"));
  EXPECT_EQ(model.routed_bias, kernels::RouterBias::score);
  EXPECT_EQ(model.routing_groups, 1);
  model = again(maxtext("deepseek_v2"));
  EXPECT_EQ(model.q_lora_rank, 0);
  EXPECT_EQ(model.shared_experts, 2);
  EXPECT_EQ(model.routed_bias, kernels::RouterBias::none);

  const auto refused = [&](const char* key, const json& value, const char* says) {
    json changed = maxtext("deepseek");
    changed[key] = value;
    expect_error([&] { (void)parse(changed); }, ExitCode::model, {"config.json: " + std::string(key) + " = " + value.dump(), says});
  };
  refused("attention_type", "global", "supported is \"mla\"");
  refused("rope_type", "default", "supported by decoder_block \"deepseek\" is \"yarn\"");
  refused("fused_qkv", true, "is false");
  refused("n_routing_groups", 3, "a divisor of num_experts = 8");
  refused("n_routing_groups", 8, "groups of one of the 8 experts");
  refused("topk_routing_group", 5, "expected 1 to n_routing_groups = 4");
  refused("num_experts_per_tok", 5, "expected at most the 4 experts of 2 groups");
  refused("first_num_dense_layers", 4, "expected at most num_decoder_layers = 3");
  json grouped = maxtext("deepseek");
  grouped["base_num_kv_heads"] = grouped["num_kv_heads"] = 2;
  expect_error([&] { (void)parse(grouped); }, ExitCode::model, {"num_kv_heads = 2", "expected num_query_heads = 4"});
  refused("engram_layers", {1}, "expected engram_compressed_vocab_size and engram_compressed_pad_id");
  refused("use_mhc_pallas_kernel", true, "supported is false");
}

/// The keys of n-gram memories, and the numbers that follow from them.
TEST(ConfigFile, ReadsEngramOfMaxText) {
  const json config = maxtext("deepseek_engram");
  const ConfigFile file = parse(config);
  EXPECT_EQ(file.model.engram, (EngramConfig{.layers = {0, 2},
                                             .max_ngram = 3,
                                             .heads = 2,
                                             .head_dim = 4,
                                             .vocab_bases = {50, 60},
                                             .kernel_size = 4,
                                             .seed = 3,
                                             .compressed_vocab_size = 43,
                                             .compressed_pad_id = 0}));
  EXPECT_EQ(parse_config_file(config_file_text(file, "float32"), "again").model, file.model);
  const auto refused = [&](const std::vector<std::pair<const char*, json>>& changes, std::vector<std::string> says) {
    json changed = config;
    for (const auto& [key, value] : changes) changed[key] = value;
    expect_error([&] { static_cast<void>(resolve(parse(changed).model)); }, ExitCode::model, says);
  };
  refused({{"engram_multipliers_layer_0", {1, 3, 5}}}, {"engram_multipliers_layer_0 = [1,3,5]", "[40527737,4277447,8961535]"});
  refused({{"engram_primes_layer_2", {{71, 73}, {79, 89}}}}, {"engram_primes_layer_2", "[[71,73],[79,83]]"});
  refused({{"engram_vocab_bases", {50}}}, {"engram_vocab_bases has 1 entries", "expected 2"});
  refused({{"engram_vocab_bases", {50, "60"}}}, {"engram_vocab_bases[1]"});
  refused({{"engram_compressed_pad_id", 43}}, {"engram_compressed_pad_id = 43", "0 to 42"});
  refused({{"engram_layers", {3}}}, {"engram_layers = 3", "0 to 2"});
  refused({{"engram_layers", {1, 1}}}, {"engram_layers = 1", "different layers"});
  refused({{"engram_kernel_size", 40}}, {"engram_kernel_size = 40", "1 to 16 taps"});
  refused({{"mhc_expansion_rate", 1}}, {"mhc_expansion_rate = 1", "2 or more with engram_layers"});
}

/// What MaxText does not combine with several residual streams, or combines in another way.
TEST(ConfigFile, RefusesOtherPartsWithHyperConnectionsOfMaxText) {
  const auto refused = [&](const char* key, const json& value, std::vector<std::string> says) {
    json changed = maxtext("deepseek_mhc");
    changed[key] = value;
    expect_error([&] { static_cast<void>(resolve(parse(changed).model)); }, ExitCode::model, says);
  };
  refused("dropout_rate", 0.1, {"mhc_expansion_rate = ", "dropout_rate = 0.1"});
  refused("mtp_num_layers", 1, {"mtp_layers = 1", "one residual stream"});
}

TEST(ConfigFile, RejectsExpertsThatMaxTextsBlockHasNot) {
  const auto refused = [&](const char* name, const char* key, const json& value, const char* says) {
    json changed = maxtext(name);
    changed[key] = value;
    expect_error([&] { (void)parse(changed); }, ExitCode::model, {"config.json: " + std::string(key) + " = " + value.dump(), says});
  };
  for (const char* name : {"mixtral", "qwen3_moe"}) {
    refused(name, "num_experts", 1, "supported are 2 to 4096");
    refused(name, "num_experts_per_tok", 7, "expected at most num_experts");
    refused(name, "routed_score_func", "tanh", "\"sigmoid\"");
    refused(name, "use_random_routing", true, "supported is false");
    refused(name, "prefuse_moe_weights", true, "supported is false");
    refused(name, "moe_expert_input_dim", 8, "supported are -1 and emb_dim");
    refused(name, "shared_experts", 1, "supported is 0");
    refused(name, "first_num_dense_layers", 1, "supported is 0");
    refused(name, "mlp_bias", true, "supported is false");
    refused(name, "base_moe_mlp_dim", 8, "expected moe_mlp_dim");
  }
  json config = maxtext("mixtral");
  config["base_moe_mlp_dim"] = config["moe_mlp_dim"] = 8;
  expect_error([&] { (void)parse(config); }, ExitCode::model, {"moe_mlp_dim = 8", "is mlp_dim = 20"});
}

TEST(ConfigFile, RejectsWhatABlockOfMaxTextHasNot) {
  const auto refused = [&](const char* name, const char* key, const json& value, const char* says) {
    json changed = maxtext(name);
    changed[key] = value;
    expect_error([&] { (void)parse(changed); }, ExitCode::model, {"config.json: " + std::string(key) + " = " + value.dump(), says});
  };
  for (const char* name : {"gemma", "gemma2", "gemma3"}) refused(name, "normalization_layer_epsilon", 1e-5, "supported is 1e-06");
  for (const char* name : {"gemma2", "gemma3"}) {
    refused(name, "use_post_attn_norm", false, "supported is true");
    refused(name, "use_post_ffw_norm", false, "supported is true");
  }
  for (const char* name : {"gemma2", "gemma3", "olmo3"}) refused(name, "sliding_window_size", 0, "from 1 to");
  refused("mistral", "sliding_window_size", 4, "supported is 0");
  refused("gemma3", "model_name", "default", "gemma3-4b, gemma3-12b, gemma3-27b");
  refused("gemma3", "rope_linear_scaling_factor", 0.5, "from 1");
  refused("gemma2", "rope_linear_scaling_factor", 8.0, "supported is 1.0");
  refused("olmo3", "model_name", "default", "olmo3-7b");
  refused("olmo3", "local_rope_max_timescale", 500, "unless rope_type is \"default\"");
  refused("olmo3", "inhomogeneous_layer_cycle_interval", 1, "supported is 4");
  refused("olmo3", "rope_type", "longrope", "\"yarn\"");
  refused("qwen3", "rope_type", "yarn", "supported are \"default\" and \"llama3.1\"");
  refused("qwen3", "model_name", "olmo3-7b", "over all heads");
  refused("qwen2", "attention_bias", false, "supported is true");
  for (const char* name : {"qwen3", "olmo3"}) refused(name, "use_qk_norm", false, "supported is true");
  for (const char* name : {"gemma3", "qwen3", "olmo3"}) refused(name, "qk_norm_with_scale", false, "supported is true");
  for (const char* name : {"gemma", "gemma2", "gemma3", "mistral", "olmo3", "qwen2", "qwen3"})
    refused(name, "share_kv_projections", true, "supported is false");
}

/// Such a model can be trained and not exported: MaxText would read another one.
TEST(ConfigFile, WritesNoModelThatABlockOfMaxTextIsNot) {
  const auto lost = [&](const char* name, auto change, const char* says) {
    ConfigFile file = parse(maxtext(name));
    change(file.model);
    expect_error([&] { (void)config_file_text(file, "float32"); }, ExitCode::model, {"cannot express", says});
  };
  lost(
      "gemma3", [](ModelConfig& model) { model.layer_kinds[5] = LayerKind::sliding; }, "model.layer_types");
  lost(
      "gemma3", [](ModelConfig& model) { model.query_pre_attn_scalar = 10; }, "model.query_pre_attn_scalar = 10");
  lost(
      "gemma3", [](ModelConfig& model) { model.rope_local.theta = 0; }, "model.rope_local");
  lost(
      "gemma", [](ModelConfig& model) { model.rms_norm_eps = 1e-5; }, "model.rms_norm_eps");
  lost(
      "gemma2", [](ModelConfig& model) { model.rope.kind = RopeKind::linear; }, "model.rope = linear");
  lost(
      "olmo3", [](ModelConfig& model) { model.rope.attention_factor = 1.5; }, "the numbers of model.rope");
  lost(
      "qwen3", [](ModelConfig& model) { model.rope.kind = RopeKind::yarn; }, "model.rope");
}

}  // namespace
}  // namespace millrace::layers
