#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "layers/formats/config_file.hpp"
#include "layers/models/model.hpp"
#include "layers/rotary.hpp"
#include "tests/layers/golden_config.hpp"
#include "tests/support/expect_error.hpp"

// Values of config.json that differ from their defaults: the layer specs that they resolve to, and their export.
namespace millrace::layers {
namespace {

using kernels::Activation;
using nlohmann::json;
using tests::expect_error;

/// The config.json of a golden folder of transformers with a merge patch.
json patched(const std::string& name, const json& patch) {
  json config = golden_hugging_face(name);
  config.merge_patch(patch);
  return config;
}

/// Parses the model, and checks that exporting and parsing it again gives the same model.
ModelConfig model_of(const std::string& name, const json& patch) {
  const ConfigFile file = parse(patched(name, patch));
  EXPECT_TRUE(file.warnings.empty()) << file.warnings[0];
  const ConfigFile again = parse_config_file(config_file_text(file, "float32"), "export");
  EXPECT_EQ(again.model, file.model) << config_file_text(file, "float32");
  EXPECT_TRUE(again.warnings.empty()) << again.warnings[0];
  return file.model;
}

ModelSpec spec_of(const std::string& name, const json& patch) { return resolve(model_of(name, patch)); }

TEST(ConfigValues, EveryActivationIsComputed) {
  const std::vector<std::pair<const char*, Activation>> table = {{"silu", Activation::silu},
                                                                 {"swish", Activation::silu},
                                                                 {"gelu", Activation::gelu_erf},
                                                                 {"gelu_python", Activation::gelu_erf},
                                                                 {"gelu_new", Activation::gelu},
                                                                 {"gelu_fast", Activation::gelu},
                                                                 {"gelu_accurate", Activation::gelu},
                                                                 {"gelu_pytorch_tanh", Activation::gelu},
                                                                 {"gelu_python_tanh", Activation::gelu},
                                                                 {"gelu_10", Activation::gelu_10},
                                                                 {"quick_gelu", Activation::quick_gelu},
                                                                 {"relu", Activation::relu},
                                                                 {"relu2", Activation::relu2},
                                                                 {"relu6", Activation::relu6},
                                                                 {"leaky_relu", Activation::leaky_relu},
                                                                 {"sigmoid", Activation::sigmoid},
                                                                 {"tanh", Activation::tanh},
                                                                 {"linear", Activation::linear},
                                                                 {"hardswish", Activation::hardswish},
                                                                 {"mish", Activation::mish},
                                                                 {"laplace", Activation::laplace},
                                                                 {"sqrtsoftplus", Activation::sqrtsoftplus},
                                                                 {"prelu", Activation::prelu},
                                                                 {"xielu", Activation::xielu}};
  for (const auto& [name, activation] : table) {
    SCOPED_TRACE(name);
    EXPECT_EQ(spec_of("llama", {{"hidden_act", name}}).layers[0].mlp().activation, activation);
    EXPECT_EQ(spec_of("gpt2", {{"activation_function", name}}).layers[0].mlp().activation, activation);
    EXPECT_EQ(spec_of("gemma3", {{"hidden_activation", name}, {"hidden_act", nullptr}}).layers[0].mlp().activation, activation);
  }
  // In Gemma's hidden_act "gelu" has always meant the tanh form; the exact one has another name there.
  EXPECT_EQ(spec_of("gemma", {{"hidden_act", "gelu"}, {"hidden_activation", nullptr}}).layers[0].mlp().activation, Activation::gelu);
  EXPECT_EQ(spec_of("gemma", {{"hidden_act", "gelu_python"}, {"hidden_activation", nullptr}}).layers[0].mlp().activation,
            Activation::gelu_erf);
  // A value equal to the family's default leaves the model's key unset.
  EXPECT_FALSE(model_of("llama", {{"hidden_act", "swish"}}).hidden_act.has_value());
  expect_error(
      [&] {
        (void)parse(patched("llama", {{"hidden_act", "nonsense"}}));
      },
      ExitCode::model, {"nonsense", "supported are silu, swish"});
}

/// Names and first values are those of transformers 5.23 (torch.nn.PReLU; XIELUActivation, which computes them in bf16).
TEST(ConfigValues, LearnedNumbersOfActivationsAreParameters) {
  using Learned = std::vector<std::pair<std::string, float>>;
  const auto learned = [](const char* family, const char* key, const char* activation) {
    Learned numbers;
    for (const ParameterSpec& spec : model_parameters(model_of(family, {{key, activation}})))
      if (spec.layer == 1 && spec.name.find(".mlp.act") != std::string::npos) {
        EXPECT_EQ(spec.shape, kernels::Shape{1}) << spec.name;
        EXPECT_EQ(spec.initial.kind, InitialKind::constant) << spec.name;
        numbers.emplace_back(spec.name, spec.initial.value);
      }
    return numbers;
  };
  EXPECT_EQ(learned("llama", "hidden_act", "prelu"), (Learned{{"model.layers.1.mlp.act_fn.weight", 0.25F}}));
  EXPECT_EQ(learned("gpt2", "activation_function", "prelu"), (Learned{{"transformer.h.1.mlp.act.weight", 0.25F}}));
  EXPECT_EQ(learned("qwen3", "hidden_act", "xielu"),
            (Learned{{"model.layers.1.mlp.act_fn.alpha_p", 0.2041015625F}, {"model.layers.1.mlp.act_fn.alpha_n", -1.046875F}}));
  EXPECT_EQ(learned("gpt2", "activation_function", "xielu"),
            (Learned{{"transformer.h.1.mlp.act.alpha_p", 0.2041015625F}, {"transformer.h.1.mlp.act.alpha_n", -1.046875F}}));
  EXPECT_EQ(learned("llama", "hidden_act", "sqrtsoftplus"), Learned{});
}

TEST(ConfigValues, BiasesStandWhereTheClassHasThem) {
  for (const char* name : {"llama", "gemma", "gemma2", "gemma3", "qwen3", "olmo3"}) {
    SCOPED_TRACE(name);
    const AttentionSpec attention = spec_of(name, {{"attention_bias", true}}).layers[0].attention();
    EXPECT_TRUE(attention.qkv_bias && attention.out_bias);
    EXPECT_FALSE(spec_of(name, json::object()).layers[0].attention().qkv_bias);
  }
  EXPECT_TRUE(spec_of("llama", {{"mlp_bias", true}}).layers[0].mlp().bias);
  std::vector<std::string> names;
  for (const auto& spec : model_parameters(model_of("llama", {{"attention_bias", true}, {"mlp_bias", true}})))
    if (spec.name.ends_with(".bias") && spec.layer == 0) names.push_back(spec.name.substr(std::string("model.layers.0.").size()));
  EXPECT_EQ(names, (std::vector<std::string>{"self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias",
                                             "self_attn.o_proj.bias", "mlp.gate_proj.bias", "mlp.up_proj.bias", "mlp.down_proj.bias"}));
  // Qwen 2 always has three of the biases, and its class has no key for them.
  const AttentionSpec qwen = spec_of("qwen2", json::object()).layers[0].attention();
  EXPECT_TRUE(qwen.qkv_bias && !qwen.out_bias);
  for (const char* name : {"mistral", "qwen2"}) {
    const ConfigFile file = parse(patched(name, {{"attention_bias", true}, {"mlp_bias", true}}));
    EXPECT_EQ(file.model, parse(patched(name, json::object())).model);
    ASSERT_EQ(file.warnings.size(), 2U) << name;
    EXPECT_NE(file.warnings[0].find("attention_bias is not read by transformers"), std::string::npos) << file.warnings[0];
  }
}

std::vector<std::int64_t> windows(const ModelSpec& model) {
  std::vector<std::int64_t> list;
  for (const LayerSpec& layer : model.layers) list.push_back(layer.attention().window);
  return list;
}

TEST(ConfigValues, LayersSlideFromTheGivenOneOn) {
  using Windows = std::vector<std::int64_t>;
  for (const char* name : {"qwen2", "qwen3"}) {
    SCOPED_TRACE(name);
    const json on = {{"use_sliding_window", true}, {"sliding_window", 5}, {"layer_types", nullptr}};
    json from = on;
    from["max_window_layers"] = 1;
    EXPECT_EQ(windows(spec_of(name, from)), (Windows{0, 5, 5}));
    from["max_window_layers"] = 0;
    EXPECT_EQ(windows(spec_of(name, from)), (Windows{5, 5, 5}));
    from["max_window_layers"] = 3;
    EXPECT_EQ(windows(spec_of(name, from)), (Windows{0, 0, 0}));
    // The list takes precedence over the number.
    json list = from;
    list["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention"};
    EXPECT_EQ(windows(spec_of(name, list)), (Windows{5, 0, 5}));
    // Without the switch no layer has a sliding window, and a list with sliding layers contradicts it.
    EXPECT_EQ(windows(spec_of(name, {{"sliding_window", 5}, {"max_window_layers", 0}, {"layer_types", nullptr}})), (Windows{0, 0, 0}));
    list["use_sliding_window"] = false;
    expect_error([&] { (void)parse(patched(name, list)); }, ExitCode::model, {"sliding_window = 5", "layer_types has sliding layers"});
  }
  // Gemma 2 accepts any list.
  json list = json::array();
  for (std::size_t i = 0; i < windows(spec_of("gemma2", json::object())).size(); ++i)
    list.push_back(i == 0 ? "full_attention" : "sliding_attention");
  EXPECT_EQ(windows(spec_of("gemma2", {{"layer_types", list}})).front(), 0);
  EXPECT_GT(windows(spec_of("gemma2", {{"layer_types", list}})).at(1), 0);
}

/// transformers' masking_utils.py: |query − key| <= sliding_window, while our kernel's window counts the query's own key.
TEST(ConfigValues, WithoutIsCausalQueriesSeeBothSides) {
  for (const char* name : {"llama", "mistral", "gemma", "gemma2", "gemma3", "qwen2", "qwen3", "olmo3", "gpt2"}) {
    SCOPED_TRACE(name);
    const ModelSpec plain = spec_of(name, json::object()), both = spec_of(name, {{"is_causal", false}});
    ASSERT_EQ(plain.layers.size(), both.layers.size());
    for (std::size_t i = 0; i < both.layers.size(); ++i) {
      const AttentionSpec &causal = plain.layers[i].attention(), &found = both.layers[i].attention();
      EXPECT_TRUE(causal.causal && !found.causal) << i;
      EXPECT_EQ(found.window, causal.window == 0 ? 0 : causal.window + 1) << i;
    }
    // Python treats null as false.
    json null = patched(name, json::object());
    null["is_causal"] = nullptr;
    EXPECT_FALSE(parse(null).model.causal);
    EXPECT_TRUE(model_of(name, {{"is_causal", true}, {"use_bidirectional_attention", false}}).causal);
  }
}

/// Gemma 3 halves the window: W // 2 + 1 positions, the query's own among them, to each side.
TEST(ConfigValues, Gemma3SeesBothSidesOfHalfAWindow) {
  const auto window = [](std::int64_t of_file, bool causal) {
    const ModelConfig model =
        model_of("gemma3", {{"use_bidirectional_attention", true}, {"is_causal", causal}, {"sliding_window", of_file}});
    EXPECT_FALSE(model.causal);
    return resolve(model).layers[0].attention().window;
  };
  EXPECT_EQ(window(6, true), 4);  // |query − key| < 6 // 2 + 1
  EXPECT_EQ(window(7, true), 4);
  EXPECT_EQ(window(6, false), 5);  // |query − key| <= 6 // 2 + 1
  EXPECT_EQ(window(1, false), 2);
  const json narrow = {{"use_bidirectional_attention", true}, {"sliding_window", 1}};
  expect_error([&] { (void)parse(patched("gemma3", narrow)); }, ExitCode::model, {"sliding_window = 1", "expected 2 or more"});
  for (const char* name : {"llama", "mistral", "qwen2", "qwen3", "olmo3", "gpt2"}) {
    const ConfigFile file = parse(patched(name, {{"use_bidirectional_attention", true}}));
    EXPECT_TRUE(file.model.causal) << name;
    ASSERT_EQ(file.warnings.size(), 1U) << name;
    EXPECT_NE(file.warnings[0].find("use_bidirectional_attention is not read"), std::string::npos) << file.warnings[0];
  }
}

/// Gemma 3's class has the key, and hands no cap to its attention.
TEST(ConfigValues, Gemma3CapsLogitsAlone) {
  const ConfigFile file = parse(patched("gemma3", {{"attn_logit_softcapping", 5.0}, {"final_logit_softcapping", 7.0}}));
  const ModelSpec model = resolve(file.model);
  EXPECT_EQ(model.logit_cap, 7);
  EXPECT_EQ(model.layers[0].attention().soft_cap, 0);
  ASSERT_EQ(file.warnings.size(), 1U);
  EXPECT_NE(file.warnings[0].find("attn_logit_softcapping is not read by transformers"), std::string::npos) << file.warnings[0];
  EXPECT_EQ(spec_of("gemma2", {{"attn_logit_softcapping", 5.0}}).layers[0].attention().soft_cap, 5);
}

TEST(ConfigValues, Gpt2ScalesItsScores) {
  const auto scales = [](const json& patch) {
    std::vector<float> list;
    for (const LayerSpec& layer : spec_of("gpt2", patch).layers) list.push_back(layer.attention().scale);
    return list;
  };
  const float root = scales(json::object()).at(0);
  EXPECT_FLOAT_EQ(root, 1.0F / std::sqrt(8.0F));
  EXPECT_FLOAT_EQ(scales({{"scale_attn_by_inverse_layer_idx", true}}).at(2), root / 3);
  EXPECT_FLOAT_EQ(scales({{"scale_attn_weights", false}}).at(2), 1.0F);
  EXPECT_FLOAT_EQ(scales({{"scale_attn_weights", false}, {"scale_attn_by_inverse_layer_idx", true}}).at(1), 0.5F);
  EXPECT_EQ(spec_of("gpt2", {{"n_inner", 24}}).layers[0].mlp().width, 24);
  EXPECT_EQ(model_of("gpt2", {{"reorder_and_upcast_attn", true}}), model_of("gpt2", json::object()));
}

RopeConfig rope_of(const json& dictionary) { return model_of("llama", {{"rope_parameters", dictionary}}).rope; }

TEST(ConfigValues, EveryKindOfRotationIsComputed) {
  const RopeConfig dynamic = rope_of({{"rope_type", "dynamic"}, {"factor", 4.0}});
  EXPECT_EQ(dynamic.kind, RopeKind::dynamic);
  EXPECT_EQ(dynamic.original_max_position, model_of("llama", json::object()).max_position_embeddings);

  const RopeConfig proportional = rope_of({{"rope_type", "proportional"}, {"partial_rotary_factor", 0.5}, {"factor", 2.0}});
  EXPECT_EQ(proportional.proportion, 0.5);
  EXPECT_EQ(proportional.factor, 2);

  json longrope = {{"rope_type", "longrope"},
                   {"original_max_position_embeddings", 16},
                   {"short_factor", {1.0, 1.5, 2.0, 2.5}},
                   {"long_factor", {1, 2, 3, 4}}};
  const auto positions = static_cast<double>(model_of("llama", json::object()).max_position_embeddings);
  EXPECT_EQ(rope_of(longrope).factor, positions / 16);
  EXPECT_EQ(rope_of(longrope).long_factors, (std::vector<double>{1, 2, 3, 4}));
  longrope["attention_factor"] = 1.25;
  EXPECT_EQ(rope_of(longrope).attention_factor, 1.25);
  longrope["short_factor"] = {1.0, 2.0};
  expect_error([&] { (void)rope_of(longrope); }, ExitCode::model, {"short_factor = [1.0,2.0]", "a list of 4 numbers"});

  // YaRN's factor may be null, and a beta of 0 counts as missing, as in Python.
  json config = patched("llama", json::object());
  config["rope_parameters"] = {
      {"rope_type", "yarn"}, {"factor", nullptr}, {"original_max_position_embeddings", 16}, {"beta_fast", 0}, {"beta_slow", 0.5}};
  const RopeConfig yarn = parse(config).model.rope;
  EXPECT_EQ(yarn.factor, positions / 16);
  EXPECT_EQ(yarn.beta_fast, 32);
  EXPECT_EQ(yarn.beta_slow, 0.5);
}

/// In a family with two rotations, that of sliding-window layers may also be scaled, and in another way.
TEST(ConfigValues, SlidingLayersHaveARotationOfTheirOwn) {
  for (const char* name : {"gemma3", "olmo3"}) {
    SCOPED_TRACE(name);
    json config = patched(name, json::object());
    config["rope_parameters"] = {{"full_attention", {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 1e6}}},
                                 {"sliding_attention", {{"rope_type", "dynamic"}, {"factor", 4.0}, {"rope_theta", 5000.0}}}};
    const ConfigFile file = parse(config);
    const ModelSpec model = resolve(file.model);
    for (const LayerSpec& layer : model.layers) {
      const AttentionSpec& attention = layer.attention();
      EXPECT_EQ(attention.rope->kind, attention.window > 0 ? RopeKind::dynamic : RopeKind::linear);
      EXPECT_EQ(attention.rope->factor, attention.window > 0 ? 4 : 2);
      EXPECT_EQ(attention.rope->theta, attention.window > 0 ? 5000 : 1e6);
    }
    EXPECT_EQ(parse_config_file(config_file_text(file, "float32"), "export").model, file.model) << config_file_text(file, "float32");
  }
}

TEST(ConfigValues, APartOfAHeadTurnsOnlyWhereTransformersTurnsIt) {
  // The default kind does not read the key.
  json patch = {{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1e4}, {"partial_rotary_factor", 0.5}}}};
  const ConfigFile file = parse(patched("llama", patch));
  ASSERT_EQ(file.warnings.size(), 1U);
  EXPECT_NE(file.warnings[0].find("partial_rotary_factor = 0.5 is not read"), std::string::npos) << file.warnings[0];
  EXPECT_EQ(file.model.rope.proportion, 1);
  patch["rope_parameters"]["rope_type"] = "linear";
  patch["rope_parameters"]["factor"] = 2.0;
  expect_error([&] { (void)parse(patched("llama", patch)); }, ExitCode::model, {"partial_rotary_factor = 0.5", "\"linear\""});
  // int(8 · 0.9) = 7 features have four pairs, which fill a head of 8: transformers computes that, with frequencies of 7.
  for (const json& kind : {json{{"rope_type", "linear"}, {"factor", 2.0}}, json{{"rope_type", "dynamic"}, {"factor", 2.0}},
                           json{{"rope_type", "llama3"}, {"factor", 2.0}, {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}},
                           json{{"rope_type", "longrope"}, {"short_factor", {1, 2, 3, 4}}, {"long_factor", {1, 2, 3, 4}}}}) {
    json dictionary = kind;
    dictionary["partial_rotary_factor"] = 0.9;
    const RopeConfig rope = rope_of(dictionary);
    EXPECT_EQ(rope.proportion, 0.9) << dictionary;
    EXPECT_EQ(inverse_frequencies(rope, 8, 1).size(), 4U) << dictionary;
  }
  const json yarn = {{"rope_type", "yarn"}, {"factor", 2.0}, {"partial_rotary_factor", 0.9}};
  expect_error([&] { (void)rope_of(yarn); }, ExitCode::model, {"partial_rotary_factor = 0.9", "\"yarn\""});
  // A key beside the dictionaries is meant for both rotations of a class that has two.
  const json outside = {{"partial_rotary_factor", 0.5},
                        {"rope_parameters",
                         {{"full_attention", {{"rope_type", "default"}, {"rope_theta", 1e6}}},
                          {"sliding_attention", {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 1e4}}}}}};
  expect_error([&] { (void)parse(patched("gemma3", outside)); }, ExitCode::model, {"sliding_attention", "\"linear\""});
}

/// A config.json of these classes cannot say that a part of every head is rotated by the default kind.
TEST(ConfigValues, AnExportKeepsThePartThatIsRotated) {
  ConfigFile file = parse(patched("llama", json::object()));
  file.model.rope = {.theta = file.model.rope.theta, .proportion = 0.5};
  expect_error([&] { (void)config_file_text(file, "float32"); }, ExitCode::model, {"cannot express model.rope_proportion = 0.5"});
}

}  // namespace
}  // namespace millrace::layers
