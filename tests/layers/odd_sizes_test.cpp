#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/base/check.hpp"
#include "layers/family_traits.hpp"
#include "tests/layers/slopes.hpp"

// Sizes that no published model has, in every family: fast kernels are compared with plain ones, and gradients with differences
// of the loss.
namespace millrace::layers::testing {
namespace {

struct Sizes {
  const char* name;
  std::int64_t rows, sequence;
  std::int64_t window;  // for families that have one
  enum class Targets { next, masked, own } targets = Targets::next;
  bool packed = false;
};

void PrintTo(const Sizes& sizes, std::ostream* out) { *out << sizes.name; }

constexpr Sizes kSizes[] = {
    {"window of one key in a packed row", 1, 13, 1, Sizes::Targets::next, true},
    {"window longer than the row, rows packed", 3, 7, 50, Sizes::Targets::next, true},
    {"window as long as the row", 2, 9, 9},
    {"one token", 1, 1, 4, Sizes::Targets::own},
    {"all targets masked", 2, 5, 3, Sizes::Targets::masked},
};

/// Odd vocabulary and width, one key/value head if the family allows it, heads of 6, layers of both kinds. Before the family's name may
/// stand "maxtext", "mixed" or "both sides", and before "maxtext" also "memories".
ModelConfig odd_model(const std::string& full_name) {
  const bool memories = full_name.starts_with("memories ");
  const std::string name = memories ? full_name.substr(full_name.find(' ') + 1) : full_name;
  const auto begins = [&](std::string_view word) { return name.starts_with(word) ? word.size() : 0; };
  const bool maxtext = begins("maxtext ") > 0, mixed = begins("mixed ") > 0, both_sides = begins("both sides ") > 0;
  const std::string family = name.substr(begins("maxtext ") + begins("mixed ") + begins("both sides "));
  ModelConfig config;
  config.family = family;
  config.numerics = maxtext ? "maxtext" : "hf";
  config.vocab_size = 61;
  config.hidden_size = 24;
  config.intermediate_size = 35;
  config.layers = 3;
  config.heads = 4;
  config.kv_heads = 1;
  config.head_dim = 6;
  config.rms_norm_eps = 1e-5;
  config.initializer_range = 0.3;
  if (family == "gpt2" || family == "gpt3") config.kv_heads = config.heads;
  if (family == "mistral" && !maxtext) config.layer_kinds.assign(3, LayerKind::sliding);
  if ((family == "gemma2" && !maxtext) || family == "gemma3" || family == "olmo3")
    config.layer_kinds = {LayerKind::sliding, LayerKind::full, LayerKind::sliding};
  if (family == "gemma3") config.rope_local.theta = 100;
  if (family.starts_with("gemma4")) {
    config.layer_kinds = {LayerKind::sliding, LayerKind::full, LayerKind::sliding};
    config.rope = {.kind = RopeKind::proportional, .theta = 500, .proportion = 0.4};
    config.rope_local.theta = 100;
    config.global_head_dim = 10, config.final_logit_softcapping = 5;
    if (family == "gemma4") config.experts = 5, config.experts_per_token = 3, config.moe_intermediate_size = 11;
    if (family == "gemma4") config.share_kv = true, config.global_kv_heads = 2;
    if (family == "gemma4" && maxtext) config.shared_experts = 2;
    if (!maxtext || family == "gemma4_small") {
      config.per_layer_input_size = 7, config.per_layer_vocab_size = 67;
      config.kv_shared_layers = 1, config.double_wide_mlp = true;
    }
  }
  if (family == "gemma2") config.attn_logit_softcapping = 2, config.final_logit_softcapping = 3;
  if (family == "gemma2" && !maxtext) config.query_pre_attn_scalar = 10;
  config.tie_word_embeddings = family.starts_with("gemma") || family == "gpt2" || family == "gpt3";
  if (family == "default") config.share_kv = true, config.sinusoidal_positions = true, config.activation = kernels::Activation::relu;
  if (family == "llama2") config.rope_interleaved = true, config.attn_logit_softcapping = 2;
  if (family == "mixtral") config.experts = 3, config.experts_per_token = 2;
  if (family == "qwen3_moe") {
    config.experts = 5, config.experts_per_token = 3, config.moe_intermediate_size = 11;
    config.norm_topk_prob = false;
    config.mlp_kinds = {MlpKind::sparse, MlpKind::dense, MlpKind::sparse};
  }
  if (family == "qwen3_next" || family == "qwen3_5_moe" || (maxtext && family == "qwen3_5")) {
    config.experts = 5, config.experts_per_token = 3, config.moe_intermediate_size = 11;
    if (!maxtext) config.shared_expert_intermediate_size = 13;
  }
  if (family == "qwen3_next" && !maxtext) config.mlp_kinds = {MlpKind::sparse, MlpKind::dense, MlpKind::sparse};
  if (family.starts_with("qwen3_5") || family == "qwen3_next") {
    config.layer_kinds = {LayerKind::linear, LayerKind::full, LayerKind::linear};
    config.linear_key_heads = 2, config.linear_value_heads = 6, config.linear_key_head_dim = 5, config.linear_value_head_dim = 3;
    config.linear_conv_kernel_dim = 3;
    config.rope.proportion = 0.7;  // 4 of 6 features
  }
  if (family == "llama4") {
    config.experts = 4, config.experts_per_token = maxtext ? 1 : 2, config.moe_intermediate_size = 11;
    config.mlp_kinds = {MlpKind::sparse, MlpKind::dense, MlpKind::sparse};
    config.layer_kinds = {LayerKind::chunked, LayerKind::full, LayerKind::chunked};
    config.attention_chunk = 4;
    config.layer_positions = {LayerPositions::rotary, LayerPositions::none, LayerPositions::rotary};
    config.use_qk_norm = config.attn_temperature_tuning = true;
    config.attn_scale = 0.3, config.floor_scale = 2;
    config.rope_interleaved = maxtext;  // in hf always
  }
  if (family == "gpt_oss") {
    // A limit that cuts a few operands, of which none crosses it within a step, and a number of experts with which no choice turns.
    config.experts = 5, config.experts_per_token = maxtext ? 3 : 2, config.swiglu_limit = 4, config.swiglu_alpha = 1.3;
    config.attention_bias = true;
    config.layer_kinds = {LayerKind::sliding, LayerKind::full, LayerKind::sliding};
    config.rope = {.kind = RopeKind::yarn, .theta = 500, .factor = 4, .original_max_position = 16, .truncate = false};
  }
  if (maxtext && family == "gpt_oss")
    config.routed_bias = kernels::RouterBias::score, config.attention_bias = false, config.swiglu_alpha = 1.702;
  if (maxtext && family == "mixtral") config.routed_bias = kernels::RouterBias::score, config.routed_score = kernels::RouterScore::softmax;
  if (maxtext && family == "qwen3_moe")
    config.routed_bias = kernels::RouterBias::choice, config.routed_score = kernels::RouterScore::sigmoid;
  if (maxtext && family == "qwen3_moe") config.capacity_factor = 0.8;
  if (family.starts_with("deepseek")) {
    config.kv_heads = config.heads;
    config.kv_lora_rank = 9, config.qk_nope_head_dim = 5, config.qk_rope_head_dim = 6, config.v_head_dim = 7;
    config.rope = {.kind = RopeKind::yarn, .theta = 500, .factor = 4, .original_max_position = 16, .mscale_all_dim = 0.7};
    config.rope_interleaved = true;
    config.first_dense_layers = 1;
    config.experts = 6, config.experts_per_token = 3, config.moe_intermediate_size = 11, config.shared_experts = 2;
    config.routing_groups = 3, config.kept_routing_groups = 2;
    config.routed_scaling_factor = 1.6;
    if (!maxtext) config.attention_bias = true;
    if (family != "deepseek_v2") config.q_lora_rank = 10;
    if (family == "deepseek_v2") config.mlp_bias = true;
    if (family == "deepseek_v32")
      config.index_n_heads = 3, config.index_head_dim = 7, config.index_topk = 5, config.rope_interleaved = false;
    if (maxtext) config.routed_score = kernels::RouterScore::sigmoid, config.routed_bias = kernels::RouterBias::choice;
  }
  if (memories) {
    config.mhc_expansion_rate = 3, config.mhc_lite = true;
    // In the first layer alone: the root in the gate of a later one has no slope at 0, which steps of earlier weights would cross.
    config.engram = {.layers = {0},
                     .max_ngram = 4,
                     .heads = 1,
                     .head_dim = 3,
                     .vocab_bases = {11, 13, 17},
                     .kernel_size = 3,
                     .seed = 9,
                     .compressed_vocab_size = 23,
                     .compressed_pad_id = 4};
  }
  if (family == "gpt3") config.fused_qkv = true, config.gated_mlp = false, config.learned_positions = 13;
  if (maxtext && family == "mistral") config.fused_mlp = true;
  if (maxtext && family == "gemma2") config.layers = 2, config.rope_local.theta = 100;  // each is two
  if (maxtext && family == "gemma3") config.query_pre_attn_scalar = 10, config.rope.kind = RopeKind::linear, config.rope.factor = 4;
  if (maxtext && family == "qwen2") config.kv_heads = config.heads, config.fused_qkv = true;
  if (maxtext && family == "qwen3") config.moba_chunk_size = 3, config.moba_topk = 2;
  if (maxtext && family == "olmo3")
    config.rope = {.kind = RopeKind::yarn, .theta = 500, .factor = 4, .original_max_position = 16}, config.rope_interleaved = true;
  if (both_sides) {
    config.causal = false;
    config.hidden_act = kernels::Activation::sqrtsoftplus;
    // int(6 · 0.6) = 3 features, and one more.
    if (family != "gpt2") config.rope = {.kind = RopeKind::linear, .factor = 2, .proportion = 0.6};
  }
  if (!mixed) return config;
  // Every layer has another kind, and together they use every feature of layers.
  config.layer_kinds = {LayerKind::chunked, LayerKind::full, LayerKind::sliding};
  config.attention_chunk = 3;
  config.layer_positions = {LayerPositions::rotary, LayerPositions::none, LayerPositions::rotary};
  config.attention_sinks = config.attention_bias = config.mlp_bias = true;
  config.hidden_act = kernels::Activation::quick_gelu;
  config.rope.kind = RopeKind::proportional;
  config.rope.proportion = 0.7;
  return config;
}

runtime::FillBatch batch(const Sizes& sizes) {
  const auto ids = random_ids(static_cast<std::size_t>(sizes.rows * sizes.sequence), 61, 5);
  return [ids, sizes](std::int64_t, const runtime::BatchView& batch) {
    for (std::int64_t t = 0; t < sizes.rows * sizes.sequence; ++t) {
      const auto at = static_cast<std::size_t>(t);
      const std::int64_t place = t % sizes.sequence, border = sizes.packed ? sizes.sequence / 3 : sizes.sequence;
      batch.tokens[at] = ids[at];
      batch.compressed[at] = ids[at] * 7 % 23;
      batch.positions[at] = static_cast<std::int32_t>(place < border ? place : place - border);
      batch.segments[at] = place < border ? 1 : 2;
      const bool last = place == sizes.sequence - 1 || place == border - 1;
      batch.targets[at] = sizes.targets == Sizes::Targets::own              ? ids[at]
                          : sizes.targets == Sizes::Targets::masked || last ? -1
                                                                            : ids[at + 1];
    }
  };
}

class OddSizes : public ::testing::TestWithParam<std::tuple<std::string, Sizes>> {
 protected:
  [[nodiscard]] const Sizes& sizes() const { return std::get<1>(GetParam()); }
  [[nodiscard]] ModelConfig config() const {
    ModelConfig config = odd_model(std::get<0>(GetParam()));
    config.sliding_window = sizes().window;
    return config;
  }
  /// MaxText's tied table is rounded: a sum close to a tie may be rounded up or down.
  [[nodiscard]] bool rounds_table() const { return config().numerics == "maxtext" && config().tie_word_embeddings; }
  [[nodiscard]] LoopOptions options(kernels::Implementation implementation) const {
    LoopOptions options;
    options.rows = sizes().rows;
    options.sequence = sizes().sequence;
    options.losses = {.z_loss = 1e-2, .balance_loss = 0.1, .router_z_loss = 0.05};  // the last two in models with experts
    if (config().index_topk > 0) options.losses.indexer_loss = 0.2;
    options.implementation = implementation;
    return options;
  }
};

TEST_P(OddSizes, FastKernelsAgreeWithPlainOnes) {
  Model fast(config(), options(kernels::Implementation::fast)), plain(config(), options(kernels::Implementation::reference));
  fast.initialise(3);
  plain.initialise(3);
  const auto fill = batch(sizes());
  const auto found = fast.loop().accumulate(fast.context(), 1, 1, fill), expected = plain.loop().accumulate(plain.context(), 1, 1, fill);
  const double loss = expected.mean().find("lm_loss")->sum;
  EXPECT_NEAR(found.mean().find("lm_loss")->sum, loss, 2e-5 * std::abs(loss));
  EXPECT_NEAR(whole_loss(found.mean()), whole_loss(expected.mean()), 2e-5 * whole_loss(expected.mean()));
  EXPECT_EQ(loss == 0, sizes().targets == Sizes::Targets::masked);
  double most = 0;  // a softmax over one key has gradients that consist only of rounding errors
  for (const auto& spec : model_parameters(config())) most = std::max(most, largest(plain.gradient(spec.name)));
  for (const auto& spec : model_parameters(config())) {
    const auto gradient = plain.gradient(spec.name);
    double relative = rounds_table() && spec.name.starts_with("token_embedder") ? 4e-3 : 1e-4;
    // Queries and keys of linear attention are divided by their lengths, which amplifies the rounding errors of short ones.
    if (spec.name.find("conv1d") != std::string::npos) relative = 3e-4;
    EXPECT_LE(largest_difference(fast.gradient(spec.name), gradient), relative * largest(gradient) + 1e-6 * most) << spec.name;
    if (sizes().targets == Sizes::Targets::masked && config().experts == 0) {
      EXPECT_EQ(largest(gradient), 0) << spec.name;
    }
  }
}

/// Positions with a loss.
class Slopes : public OddSizes {};

TEST_P(Slopes, AreEveryTensorsGradientAlongRandomDirections) {
  Model model(config(), options(kernels::Implementation::reference));
  // With experts: weights with which steps rarely turn a router's choice.
  const std::uint64_t with_experts = config().routing_groups > 1 ? 30 : 9;
  model.initialise(config().experts > 0 ? with_experts : 3);
  expect_gradients_are_slopes(model, batch(sizes()),
                              [&](const std::string& name) { return rounds_table() && name.starts_with("token_embedder"); });
}

std::vector<Sizes> sizes_with_targets() {
  std::vector<Sizes> sizes(std::begin(kSizes), std::end(kSizes));
  std::erase_if(sizes, [](const Sizes& one) { return one.targets == Sizes::Targets::masked; });
  return sizes;
}

/// Every family, two whose layers are mixed, two without a causal mask, and one with residual streams and n-gram memories.
std::vector<std::string> odd_families() {
  std::vector<std::string> names{"mixed llama", "mixed gemma3", "both sides gemma2", "both sides gpt2", "memories maxtext deepseek"};
  for (const FamilyTraits* traits : family_traits())
    names.push_back((traits->numerics == "hf" ? "" : std::string(traits->numerics) + " ") + std::string(traits->name));
  return names;
}

INSTANTIATE_TEST_SUITE_P(Families, OddSizes, ::testing::Combine(::testing::ValuesIn(odd_families()), ::testing::ValuesIn(kSizes)));
INSTANTIATE_TEST_SUITE_P(Families, Slopes,
                         ::testing::Combine(::testing::ValuesIn(odd_families()), ::testing::ValuesIn(sizes_with_targets())));

TEST(OddSizesMessages, SayWhatDoesNotFit) {
  const auto refused = [](const std::string& family, auto change, const std::string& says) {
    ModelConfig config = odd_model(family);
    config.sliding_window = 4;
    change(config);
    try {
      (void)build_stage(config, {true, 0, 3, true}, {kernels::DType::f32, 1, 16, {}, Output::loss});
      ADD_FAILURE() << family << ": nothing was thrown, expected " << says;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::model) << error.what();
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    }
  };
  refused(
      "llama", [](ModelConfig& config) { config.head_dim = 7; }, "head_dim = 7, expected an even number");
  refused(
      "qwen3", [](ModelConfig& config) { config.kv_heads = 3; }, "heads = 4, kv_heads = 3");
  refused(
      "gemma3", [](ModelConfig& config) { config.sliding_window = 0; }, "sliding_window = 0 with sliding layers");
  refused(
      "gemma2", [](ModelConfig& config) { config.layer_kinds.pop_back(); }, "layer_types has 2 entries, expected 3");
  refused(
      "gpt_oss", [](ModelConfig& config) { config.experts = 0; }, "experts = 0, expected 1 or more");
  refused(
      "gpt_oss", [](ModelConfig& config) { config.experts_per_token = 6; }, "experts_per_token = 6, expected 1 to the 5 experts");
  refused(
      "maxtext gpt_oss", [](ModelConfig& config) { config.experts = 0; }, "experts = 0, expected 2 or more");
  refused(
      "gpt2", [](ModelConfig& config) { config.max_position_embeddings = 15; }, "rows of 16 tokens");
  refused(
      "qwen3_5", [](ModelConfig& config) { config.linear_key_head_dim = 0; },
      "linear_key_head_dim = 0 with linear layers, expected 1 or more");
  refused(
      "qwen3_5", [](ModelConfig& config) { config.linear_value_heads = 5; },
      "linear_value_heads = 5, linear_key_heads = 2, expected linear_value_heads a multiple");
  refused(
      "qwen3_5", [](ModelConfig& config) { config.linear_conv_kernel_dim = 17; }, "linear_conv_kernel_dim = 17, expected at most 16");
  refused(
      "qwen3_5", [](ModelConfig& config) { config.hidden_act = kernels::Activation::prelu; },
      "hidden_act = prelu with linear layers, expected an activation without learned numbers");
  refused(
      "maxtext gemma3", [](ModelConfig& config) { config.layer_kinds[0] = LayerKind::linear; }, "layer_types has linear layers");
  refused(
      "maxtext gpt3", [](ModelConfig& config) { config.learned_positions = 15; }, "rows of 16 tokens");
  refused(
      "maxtext gpt3", [](ModelConfig& config) { config.kv_heads = 2; }, "kv_heads = 2, expected heads = 4 with fused_qkv");
  refused(
      "maxtext default",
      [](ModelConfig& config) {
        config.fused_qkv = true;
        config.kv_heads = 4;
      },
      "fused_qkv and share_kv together");
  refused(
      "maxtext qwen3", [](ModelConfig& config) { config.moba_topk = 0; }, "moba_topk = 0, expected 1 or more with moba_chunk_size");
  refused(
      "maxtext llama2", [](ModelConfig& config) { config.final_logit_softcapping = 3; }, "MaxText caps logits of tied tables only");
  refused(
      "maxtext simple", [](ModelConfig& config) { config.numerics = "hf"; },
      "model.numerics = \"hf\" with the family simple, expected \"maxtext\"");
  refused(
      "llama", [](ModelConfig& config) { config.numerics = "maxtext"; },
      "model.numerics = \"maxtext\" with the family llama, expected \"hf\"");
  refused(
      "maxtext gemma2", [](ModelConfig& config) { config.sliding_window = 0; }, "sliding_window = 0, expected 1 or more");
  refused(
      "maxtext gemma3", [](ModelConfig& config) { config.layer_kinds.pop_back(); }, "layer_types has 2 entries, expected 3");
  refused(
      "maxtext olmo3", [](ModelConfig& config) { config.layer_kinds[0] = LayerKind::chunked; }, "layer_types has chunked layers");
  refused(
      "maxtext olmo3", [](ModelConfig& config) { config.max_position_embeddings = 15; },
      "rows of 16 tokens, expected at most max_position_embeddings = 15 with yarn");
  for (const char* family : {"deepseek_v3", "maxtext deepseek"}) {
    refused(
        family, [](ModelConfig& config) { config.kv_lora_rank = 0; }, "kv_lora_rank = 0, expected 1 or more");
    refused(
        family, [](ModelConfig& config) { config.v_head_dim = 0; }, "v_head_dim = 0, expected 1 or more");
    refused(
        family, [](ModelConfig& config) { config.qk_rope_head_dim = config.head_dim = 8, config.rope.proportion = 0.5; },
        "rope_proportion = 0.5 rotates 4 of qk_rope_head_dim = 8, expected all of them");
    refused(
        family, [](ModelConfig& config) { config.kv_heads = 2; }, "kv_heads = 2");
  }
  refused(
      "deepseek_v2", [](ModelConfig& config) { config.head_dim = 8; }, "head_dim = 8, expected qk_rope_head_dim = 6");
  refused(
      "maxtext deepseek", [](ModelConfig& config) { config.rope.kind = RopeKind::none; }, "rope = default, expected yarn");
}

}  // namespace
}  // namespace millrace::layers::testing
