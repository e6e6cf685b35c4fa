#include "layers/formats/config_file.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include "tests/layers/golden_config.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace millrace::layers {
namespace {

using nlohmann::json;
using tests::expect_error;
using tests::TemporaryFolder;

/// A Llama 3 with a lengthened context, as transformers 5 writes it.
json version_5() {
  return json::parse(R"({
    "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": null, "dtype": "float32",
    "eos_token_id": null, "head_dim": 8, "hidden_act": "silu", "hidden_size": 32, "initializer_range": 0.2, "intermediate_size": 64,
    "max_position_embeddings": 64, "mlp_bias": false, "model_type": "llama", "num_attention_heads": 4, "num_hidden_layers": 3,
    "num_key_value_heads": 2, "pad_token_id": null, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
    "rope_parameters": {"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 16,
                        "rope_theta": 500000.0, "rope_type": "llama3"},
    "tie_word_embeddings": true, "transformers_version": "5.23.0", "use_cache": false, "vocab_size": 128})");
}

/// The same model as transformers 4 writes it.
json version_4() {
  json config = version_5();
  config.erase("rope_parameters");
  config.erase("dtype");
  config["torch_dtype"] = "bfloat16";
  config["rope_theta"] = 500000.0;
  config["rope_scaling"] = {{"factor", 8.0},
                            {"high_freq_factor", 4.0},
                            {"low_freq_factor", 1.0},
                            {"original_max_position_embeddings", 16},
                            {"rope_type", "llama3"}};
  return config;
}

TEST(ConfigFile, ReadsBothSpellings) {
  const ConfigFile read = parse(version_5());
  EXPECT_TRUE(read.warnings.empty()) << read.warnings[0];
  const ModelConfig& model = read.model;
  EXPECT_EQ(model.family, "llama");
  EXPECT_EQ(model.numerics, "hf");
  EXPECT_EQ(model.vocab_size, 128);
  EXPECT_EQ(model.hidden_size, 32);
  EXPECT_EQ(model.intermediate_size, 64);
  EXPECT_EQ(model.layers, 3);
  EXPECT_EQ(model.heads, 4);
  EXPECT_EQ(model.kv_heads, 2);
  EXPECT_EQ(model.head_dim, 8);
  EXPECT_EQ(model.rms_norm_eps, 1e-5);
  EXPECT_EQ(model.max_position_embeddings, 64);
  EXPECT_TRUE(model.tie_word_embeddings);
  EXPECT_EQ(model.initializer_range, 0.2);
  EXPECT_EQ(model.rope, (RopeConfig{RopeKind::llama3, 500000.0, 8.0, 1.0, 4.0, 16}));
  EXPECT_EQ(parse(version_4()).model, model);
  EXPECT_TRUE(parse(version_4()).warnings.empty());
}

TEST(ConfigFile, MissingKeysHaveTheDefaultsOfTheClass) {
  const json least = {
      {"model_type", "llama"}, {"vocab_size", 1000}, {"hidden_size", 256}, {"intermediate_size", 512}, {"num_hidden_layers", 2}};
  const ModelConfig model = parse(least).model;
  EXPECT_EQ(model.heads, 32);
  EXPECT_EQ(model.kv_heads, 32);
  EXPECT_EQ(model.head_dim, 8);
  EXPECT_EQ(model.rms_norm_eps, 1e-6);
  EXPECT_EQ(model.max_position_embeddings, 2048);
  EXPECT_FALSE(model.tie_word_embeddings);
  EXPECT_EQ(model.initializer_range, 0.02);
  EXPECT_EQ(model.rope, RopeConfig());

  json nulls = least;
  for (const char* key : {"num_key_value_heads", "head_dim", "rope_scaling", "hidden_activation"}) nulls[key] = nullptr;
  EXPECT_EQ(parse(nulls).model, model);

  json named_by_class = least;
  named_by_class.erase("model_type");
  named_by_class["architectures"] = {"LlamaForCausalLM"};
  EXPECT_EQ(parse(named_by_class).model, model);
}

TEST(ConfigFile, ReadsLinearScaling) {
  json config = version_4();
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 4}};  // the spelling before rope_type
  const RopeConfig rope = parse(config).model.rope;
  EXPECT_EQ(rope.kind, RopeKind::linear);
  EXPECT_EQ(rope.factor, 4.0);
  EXPECT_EQ(rope.theta, 500000.0);
}

TEST(ConfigFile, Llama3ScalingWithoutOriginalLength) {
  json config = version_5();
  config["rope_parameters"].erase("original_max_position_embeddings");
  EXPECT_EQ(parse(config).model.rope.original_max_position, 64);
}

TEST(ConfigFile, WarnsOfWhatItDoesNotKnow) {
  json config = version_4();
  config["new_switch"] = 3;
  config["attention_dropout"] = 0.1;
  config["rope_scaling"]["strange"] = true;
  const auto warnings = parse(config).warnings;
  ASSERT_EQ(warnings.size(), 3u);
  EXPECT_NE(warnings[0].find("attention_dropout is not applied"), std::string::npos);
  EXPECT_NE(warnings[1].find("rope_scaling.strange is not known"), std::string::npos);
  EXPECT_NE(warnings[2].find("new_switch is not known"), std::string::npos);
}

struct Rejection {
  const char* name;
  json::json_pointer key;
  json value;
  std::vector<std::string> says;
};

TEST(ConfigFile, RejectsWhatItDoesNotCompute) {
  const auto at = [](const char* pointer) { return json::json_pointer(pointer); };
  const std::vector<Rejection> table = {
      {"family", at("/model_type"), "mamba", {"model_type = \"mamba\"", "supported are \"llama\", \"mistral\""}},
      {"family of another type", at("/model_type"), 3, {"model_type = 3", "expected a string"}},
      {"unknown activation", at("/hidden_act"), "selu", {"hidden_act = \"selu\"", "supported are silu, swish"}},
      {"Gemma's activation", at("/hidden_activation"), "gelu_pytorch_tanh", {"hidden_activation", "contradicts hidden_act = \"silu\""}},
      {"unknown rope", at("/rope_parameters/rope_type"), "su", {"rope_parameters.rope_type = \"su\"", "\"longrope\" and"}},
      {"partial rotary",
       at("/rope_parameters/partial_rotary_factor"),
       0.5,
       {"rope_parameters.partial_rotary_factor = 0.5", "cannot compute with rope_type = \"llama3\""}},
      {"quantised", at("/quantization_config"), {{"quant_method", "gptq"}}, {"quantization_config", "without quantization"}},
      {"factor missing", at("/rope_parameters/factor"), nullptr, {"rope_parameters.factor = null", "expected a number"}},
      {"factors crossed", at("/rope_parameters/high_freq_factor"), 0.5, {"high_freq_factor = 0.5", "low_freq_factor or more"}},
      {"rope no object", at("/rope_parameters"), 3, {"rope_parameters = 3", "expected an object"}},
      {"negative size", at("/hidden_size"), -32, {"hidden_size = -32", "expected an integer from 1"}},
      {"zero layers", at("/num_hidden_layers"), 0, {"num_hidden_layers = 0"}},
      {"absurd size", at("/intermediate_size"), 1e12, {"intermediate_size"}},
      {"beyond 63 bits", at("/vocab_size"), 18446744073709551615U, {"vocab_size = 18446744073709551615", "expected an integer"}},
      {"a size as text", at("/vocab_size"), "128", {"vocab_size = \"128\"", "expected an integer"}},
      {"a size as float", at("/vocab_size"), 128.0, {"vocab_size = 128.0", "expected an integer"}},
      {"size missing", at("/vocab_size"), nullptr, {"vocab_size = null", "expected an integer"}},
      {"heads", at("/num_key_value_heads"), 3, {"num_key_value_heads = 3", "does not divide num_attention_heads = 4"}},
      {"no heads", at("/num_key_value_heads"), 0, {"num_key_value_heads = 0"}},
      {"odd heads", at("/head_dim"), 7, {"head_dim = 7", "even"}},
      {"epsilon", at("/rms_norm_eps"), -1.0, {"rms_norm_eps = -1.0", "expected a number from 0"}},
      {"tied as a number", at("/tie_word_embeddings"), 1, {"tie_word_embeddings = 1", "expected true or false"}},
  };
  for (const Rejection& rejection : table) {
    SCOPED_TRACE(rejection.name);
    json config = version_5();
    config[rejection.key] = rejection.value;
    auto says = rejection.says;
    says.emplace_back("config.json");
    expect_error([&] { (void)parse(config); }, ExitCode::model, says);
  }
  json missing = version_5();
  missing.erase("hidden_size");
  expect_error([&] { (void)parse(missing); }, ExitCode::model, {"hidden_size = (missing)"});
  json indivisible = version_5();
  indivisible.erase("head_dim");
  indivisible["hidden_size"] = 30;
  expect_error([&] { (void)parse(indivisible); }, ExitCode::model, {"num_attention_heads = 4", "does not divide hidden_size = 30"});
  json nameless = version_5();
  nameless.erase("model_type");
  nameless["architectures"] = {"MambaForCausalLM"};
  expect_error([&] { (void)parse(nameless); }, ExitCode::model, {"model_type = (missing)", "supported are \"llama\""});
}

/// Sizes that are valid one by one, and together larger than any model.
TEST(ConfigFile, RejectsAModelBeyondMeasure) {
  json config = version_5();
  for (const char* key : {"hidden_size", "intermediate_size", "vocab_size"}) config[key] = 1 << 20;
  config["num_hidden_layers"] = 4096;
  expect_error([&] { (void)parse(config); }, ExitCode::model, {"config.json: a model of", "expected at most 1e+15"});
}

TEST(ConfigFile, ALongValueIsCutInItsMessage) {
  json config = version_5();
  config["hidden_size"] = std::vector<int>(100'000, 7);
  try {
    (void)parse(config);
    FAIL() << "a list was taken for a size";
  } catch (const Error& error) {
    EXPECT_LT(std::string(error.what()).size(), 500u);
  }
}

/// Every key of a folder with every kind of value, and every prefix of the text, gives an error or a model, and a model can be
/// written and read again.
TEST(ConfigFile, SurvivesWhatNobodyMeant) {
  const std::vector<json> values = {nullptr,
                                    true,
                                    -1,
                                    0,
                                    65536,
                                    std::numeric_limits<std::uint64_t>::max(),
                                    1e300,
                                    "gpt2",
                                    json::array({1, "sliding_attention"}),
                                    {{"rope_type", "yarn"}, {"factor", -3}}};
  const auto survives = [](const std::string& text) {
    try {
      const ConfigFile file = parse_config_file(text, "config.json");
      EXPECT_EQ(parse_config_file(config_file_text(file, "float32"), "again").model, file.model) << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::model) << error.what();
      EXPECT_NE(std::string(error.what()).find("config.json"), std::string::npos) << error.what() << "\n" << text;
    }
  };
  for (const char* name : {"hf_gemma3", "hf_gemma4", "hf_gemma4_small", "hf_gpt2", "hf_qwen3_5", "maxtext_gemma4_small", "maxtext_gpt3"}) {
    const json config = golden_config(name);
    for (const auto& [key, old] : config.items()) {
      json changed = config;
      changed.erase(key);
      survives(changed.dump());
      for (const json& value : values) {
        changed[key] = value;
        survives(changed.dump());
      }
    }
    const std::string text = config.dump();
    for (std::size_t end = 0; end < text.size(); end += 23) survives(text.substr(0, end));
  }
}

/// transformers 5 requires a whole number if its class says so.
TEST(ConfigFile, AWholeQueryScalarIsExportedAsOne) {
  ModelConfig model = parse(version_5()).model;
  model.family = "gemma2";
  model.query_pre_attn_scalar = 256;
  EXPECT_TRUE(json::parse(config_file_text({model}, "float32")).at("query_pre_attn_scalar").is_number_integer());
  model.query_pre_attn_scalar = 168.5;
  EXPECT_EQ(json::parse(config_file_text({model}, "float32")).at("query_pre_attn_scalar"), 168.5);
}

/// transformers makes the mask of a window in these classes, whether a layer has one or not.
TEST(ConfigFile, AModelWithoutWindowsNamesOneWhereTransformersNeedsIt) {
  for (const char* family : {"gemma2", "gemma3", "olmo3"}) {
    ModelConfig model = parse(version_5()).model;
    model.family = family;
    model.rope = {};
    model.rope_local = {};
    if (family == std::string("olmo3")) model.query_pre_attn_scalar = 0;
    const std::string text = config_file_text({model}, "float32");
    EXPECT_TRUE(json::parse(text).at("sliding_window").is_number_integer()) << family;
    EXPECT_EQ(json::parse(text).at("layer_types"),
              json(std::vector<std::string>(static_cast<std::size_t>(model.layers), "full_attention")));
    EXPECT_EQ(parse_config_file(text, "again").model.sliding_window, 0) << "no layer has it";
  }
}

/// Writing a model that the format cannot express must fail, rather than lose a part of it.
TEST(ConfigFile, IsNotWrittenWhereItWouldBeAnotherModel) {
  const ModelConfig llama = parse(version_5()).model;
  const auto refused = [&](auto change, const char* says) {
    ModelConfig model = llama;
    change(model);
    expect_error([&] { (void)config_file_text({model}, "float32"); }, ExitCode::model, {says});
  };
  refused([](ModelConfig& model) { model.attn_logit_softcapping = 2; }, "cannot express model.attn_logit_softcapping = 2");
  refused([](ModelConfig& model) { model.query_pre_attn_scalar = 7; }, "cannot express model.query_pre_attn_scalar = 7");
  refused([](ModelConfig& model) { model.fused_qkv = true; }, "cannot express model.fused_qkv = true");
  refused([](ModelConfig& model) { model.routed_bias = kernels::RouterBias::choice; }, "cannot express model.routed_bias = choice");
  refused(
      [](ModelConfig& model) {
        model.family = "mistral";
        model.sliding_window = 4;
        model.layer_kinds.assign(static_cast<std::size_t>(model.layers), LayerKind::full);
        model.layer_kinds.front() = LayerKind::sliding;
      },
      "cannot express model.layer_types");
  // If Gemma's scale is not given, it is that of the head, and is written as such.
  ModelConfig gemma = llama;
  gemma.family = "gemma2";
  gemma.sliding_window = 4;
  gemma.layer_kinds.assign(static_cast<std::size_t>(gemma.layers), LayerKind::full);
  for (std::size_t i = 0; i < gemma.layer_kinds.size(); i += 2) gemma.layer_kinds[i] = LayerKind::sliding;
  gemma.rope = {};
  EXPECT_EQ(json::parse(config_file_text({gemma}, "float32")).at("query_pre_attn_scalar"), gemma.head_dim);
}

TEST(ConfigFile, RejectsWhatIsNoConfig) {
  expect_error([] { (void)parse_config_file("{\"a\": ", "x.json"); }, ExitCode::model, {"x.json: not JSON"});
  expect_error([] { (void)parse_config_file("[1]", "x.json"); }, ExitCode::model, {"x.json: a JSON array, expected an object"});
  expect_error([] { (void)parse_config_file("", "x.json"); }, ExitCode::model, {"not JSON"});
  expect_error([] { (void)parse_config_file(std::string(100000, '['), "x.json"); }, ExitCode::model, {"nested deeper than 16"});
  expect_error([] { (void)parse_config_file(R"({"a": 1, "b": 2, "a": 3})", "x.json"); }, ExitCode::model, {"the key 'a' appears twice"});
  expect_error([] { (void)parse_config_file(R"({"rms_norm_eps": NaN})", "x.json"); }, ExitCode::model, {"not JSON"});
  expect_error([] { (void)parse_config_file(R"({"rms_norm_eps": 1e999})", "x.json"); }, ExitCode::model, {"not JSON", "1e999"});
  expect_error([] { (void)parse_config_file(std::string(5 << 20, ' '), "x.json"); }, ExitCode::model,
               {"5242880 bytes (5.00 MiB), expected at most"});
  const TemporaryFolder folder;
  expect_error([&] { (void)read_config_file(folder.path()); }, ExitCode::model, {"config.json", "cannot be read"});
}

TEST(ConfigFile, IsReadFromFoldersAndFiles) {
  const TemporaryFolder folder;
  const auto file = folder.write("config.json", version_5().dump());
  EXPECT_EQ(read_config_file(folder.path()).model, parse(version_5()).model);
  EXPECT_EQ(read_config_file(file).model, parse(version_5()).model);
}

/// The config.json of a golden folder of transformers.
TEST(ConfigFile, ExportIsReadBack) {
  json linear = version_4();
  linear["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 3.0}};
  json plain = version_5();
  plain["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1234.5}};
  json yarn = golden_hugging_face("olmo3");
  yarn["rope_parameters"]["full_attention"] = {
      {"rope_type", "yarn"}, {"factor", 8.0}, {"original_max_position_embeddings", 16}, {"rope_theta", 5e5}, {"attention_factor", 1.25}};
  json other_base = yarn;
  other_base["rope_parameters"]["sliding_attention"]["rope_theta"] = 1e4;
  json not_truncated = golden_hugging_face("gemma3");
  not_truncated["rope_parameters"]["full_attention"] = yarn["rope_parameters"]["full_attention"];
  not_truncated["rope_parameters"]["truncate"] = false;
  std::vector<json> configs = {version_5(), linear, plain, yarn, other_base, not_truncated};
  for (const char* name : {"gemma", "gemma2", "gemma3", "llama", "llama3", "llama4", "mistral", "mixtral", "olmo3", "qwen2", "qwen3",
                           "qwen3_5", "qwen3_moe", "qwen3_next", "deepseek_v3"})
    configs.push_back(golden_hugging_face(name));
  for (const json& config : configs) {
    const ConfigFile file = parse(config);
    EXPECT_TRUE(file.warnings.empty()) << file.warnings[0];
    const std::string text = config_file_text(file, "bfloat16");
    const ConfigFile again = parse_config_file(text, "export");
    EXPECT_EQ(again.model, file.model) << text;
    EXPECT_TRUE(again.warnings.empty()) << again.warnings[0];
    EXPECT_EQ(config_file_text(again, "bfloat16"), text);
    // Only one of the two keys is written, so that they cannot contradict each other: the old one, if both versions of
    // transformers read it alike.
    const json written = json::parse(text);
    const bool needs_new = config == other_base || config == not_truncated;
    EXPECT_EQ(written.contains("rope_parameters"), needs_new) << text;
    EXPECT_EQ(written.contains("rope_scaling"), !needs_new) << text;
    EXPECT_TRUE(written.contains("rope_theta"));
  }
}

/// Exports had both keys, with equal values, before there was only one.
TEST(ConfigFile, ReadsBothRotaryKeysWhereTheyAgree) {
  json config = version_4();
  config["rope_parameters"] = version_5()["rope_parameters"];
  EXPECT_EQ(parse(config).model, parse(version_5()).model);
  EXPECT_TRUE(parse(config).warnings.empty());
  for (const json& nothing : {json(nullptr), json::object()}) {
    config["rope_scaling"] = nothing;
    EXPECT_EQ(parse(config).model, parse(version_5()).model);
  }
  // A factor that is given, and the same one by its formula.
  json yarn = version_5();
  yarn["rope_parameters"] = {{"rope_type", "yarn"}, {"factor", 8.0}, {"rope_theta", 500000.0}};
  yarn["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 8.0}, {"attention_factor", 0.1 * std::log(8.0) + 1.0}};
  yarn["rope_theta"] = 500000.0;
  EXPECT_EQ(parse(yarn).model.rope.kind, RopeKind::yarn);
}

struct Contradiction {
  const char* name;
  json changes;  // a merge patch for version_4() with the rope_parameters of version_5()
  std::vector<std::string> says;
};

TEST(ConfigFile, RejectsRotationsThatContradictEachOther) {
  const std::vector<Contradiction> table = {
      {"factor",
       {{"rope_scaling", {{"factor", 4.0}}}},
       {"rope_scaling = {", "\"factor\":4.0", "contradicts rope_parameters = {", "takes rope_scaling"}},
      {"kind", {{"rope_scaling", {{"rope_type", "linear"}}}}, {"contradicts rope_parameters"}},
      {"length", {{"rope_scaling", {{"original_max_position_embeddings", nullptr}}}}, {"contradicts rope_parameters"}},
      {"base that only one has", {{"rope_theta", nullptr}}, {"contradicts rope_parameters", "with rope_theta = 10000"}},
      {"unsupported kind in the one", {{"rope_scaling", {{"rope_type", "su"}}}}, {"rope_scaling.rope_type = \"su\""}},
      {"unsupported kind in the other", {{"rope_parameters", {{"rope_type", "su"}}}}, {"rope_parameters.rope_type = \"su\""}},
      {"both names of the kind",
       {{"rope_scaling", {{"type", "linear"}}}},
       {"rope_scaling.type = \"linear\"", "contradicts rope_type = \"llama3\""}},
      {"base of the scaling",
       {{"rope_parameters", nullptr}, {"rope_scaling", {{"rope_theta", 1e4}}}},
       {"rope_scaling.rope_theta = 10000.0", "contradicts rope_theta = 500000", "transformers 4 reads; transformers 5 reads this value"}},
      {"length beside", {{"original_max_position_embeddings", 32}}, {"original_max_position_embeddings = 32", "contradicts", "16"}},
      {"two rotations", {{"rope_parameters", {{"full_attention", json::object()}}}}, {"rope_parameters = {", "expected one rotation"}},
  };
  for (const Contradiction& row : table) {
    SCOPED_TRACE(row.name);
    json config = version_4();
    config["rope_parameters"] = version_5()["rope_parameters"];
    config.merge_patch(row.changes);
    expect_error([&] { (void)parse(config); }, ExitCode::model, row.says);
  }
  // transformers 5 defines which base counts here, and 4 does not know the key.
  json overruled = version_5();
  overruled["rope_theta"] = 1e4;
  EXPECT_EQ(parse(overruled).model.rope.theta, 500000.0);
  ASSERT_EQ(parse(overruled).warnings.size(), 1u);
  EXPECT_NE(parse(overruled).warnings[0].find("rope_theta = 10000 is overridden by rope_parameters.rope_theta = 500000"),
            std::string::npos);
}

TEST(ConfigFile, RotationsOfTwoKindsOfLayers) {
  // rope_scaling is added to the full layers' dictionary.
  json config = golden_hugging_face("gemma3");
  const ModelConfig model = parse(config).model;
  config["rope_parameters"]["full_attention"] = {{"rope_theta", 1000000.0}};
  config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8.0}};
  EXPECT_EQ(parse(config).model, model);
  config["rope_parameters"]["full_attention"]["factor"] = 4.0;
  expect_error([&] { (void)parse(config); }, ExitCode::model, {"rope_scaling", "contradicts rope_parameters.full_attention.factor = 4.0"});
  config["rope_parameters"]["full_attention"] = {{"type", "dynamic"}};
  expect_error([&] { (void)parse(config); }, ExitCode::model, {"type = \"dynamic\"", "contradicts rope_type = \"linear\""});

  // Only version 4, and its key for a value that version 5 omits.
  json old = golden_hugging_face("gemma3");
  old.erase("rope_parameters");
  old["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8.0}};
  EXPECT_EQ(parse(old).model, model);
  old["rope_local_base_freq"] = 5000.0;
  EXPECT_EQ(parse(old).model.rope_local.theta, 5000.0);
  old["rope_parameters"] = {{"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}}}};
  EXPECT_EQ(parse(old).model.rope_local.theta, 5000.0);
  old["rope_parameters"] = {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 1e6}};
  expect_error([&] { (void)parse(old); }, ExitCode::model, {"rope_parameters = {", "expected full_attention and sliding_attention"});

  // transformers 4 rotates OLMo's sliding layers by rope_theta, 5 by its class's default.
  json olmo = golden_hugging_face("olmo3");
  olmo.erase("rope_parameters");
  EXPECT_EQ(parse(olmo).model, parse(golden_hugging_face("olmo3")).model);
  EXPECT_TRUE(parse(olmo).warnings.empty());
  olmo["rope_theta"] = 1e4;
  EXPECT_EQ(parse(olmo).model.rope_local.theta, 1e4);
  ASSERT_EQ(parse(olmo).warnings.size(), 1u);
  EXPECT_NE(parse(olmo).warnings[0].find("version 5 uses 500000 there"), std::string::npos) << parse(olmo).warnings[0];
}

TEST(ConfigFile, YarnsSmallPrint) {
  json config = version_5();
  config["rope_parameters"] = {{"rope_type", "yarn"}, {"factor", 8.0}, {"rope_theta", 1e4}, {"original_max_position_embeddings", 16}};
  EXPECT_TRUE(parse(config).model.rope.truncate);
  config["rope_parameters"]["truncate"] = nullptr;  // Python's false
  EXPECT_FALSE(parse(config).model.rope.truncate);
  config["rope_parameters"]["mscale"] = 1.0;
  EXPECT_EQ(parse(config).model.rope.attention_factor, 0);  // one of them alone has no effect
  config["rope_parameters"]["mscale_all_dim"] = 0.5;
  EXPECT_EQ(parse(config).model.rope.attention_factor, (0.1 * std::log(8.0) + 1.0) / (0.1 * 0.5 * std::log(8.0) + 1.0));
  config["rope_parameters"]["attention_factor"] = 1.5;
  EXPECT_EQ(parse(config).model.rope.attention_factor, 1.5);

  // In a family with two rotations version 5 looks for truncate beside the dictionaries, version 4 in rope_scaling.
  json gemma = golden_hugging_face("gemma3");
  gemma["rope_parameters"]["full_attention"] = {{"rope_type", "yarn"}, {"factor", 8.0}, {"truncate", false}};
  expect_error([&] { (void)parse(gemma); }, ExitCode::model, {"full_attention.truncate = false", "expected the same in both"});
  gemma["rope_parameters"]["truncate"] = false;
  EXPECT_FALSE(parse(gemma).model.rope.truncate);
  gemma["rope_parameters"]["full_attention"].erase("truncate");
  EXPECT_FALSE(parse(gemma).model.rope.truncate);
}

/// The original length is the class's default if it is not given.
TEST(ConfigFile, MissingLengthsAreThoseOfTheClass) {
  for (const auto& [name, length] : {std::pair{"llama", 2048},
                                     {"mistral", 131072},
                                     {"gemma", 8192},
                                     {"gemma2", 8192},
                                     {"gemma3", 131072},
                                     {"gemma4", 131072},
                                     {"qwen2", 32768},
                                     {"qwen3", 32768},
                                     {"mixtral", 131072},
                                     {"qwen3_moe", 32768},
                                     {"deepseek_v3", 4096},
                                     {"llama4", 131072},
                                     {"olmo3", 2048}}) {
    json config = golden_hugging_face(name);
    config.erase("max_position_embeddings");
    EXPECT_EQ(parse(config).model.max_position_embeddings, length) << name;
  }
}

TEST(ConfigFile, NoKeyThatChangesAModelIsPassedOver) {
  const auto refused = [](const char* name, const char* key, const json& value, const char* says) {
    SCOPED_TRACE(std::string(name) + " " + key);
    json config = golden_hugging_face(name);
    config[key] = value;
    expect_error([&] { (void)parse(config); }, ExitCode::model, {std::string(key) + " = " + value.dump(), says});
  };
  for (const char* name : {"llama", "gpt2", "gemma3"}) {
    refused(name, "per_layer_config", {{"0", {{"head_dim", 16}}}}, "all layers have the same sizes");
    refused(name, "pruned_heads", {{"0", {1}}}, "all layers have the same sizes");
    refused(name, "torchscript", true, "supported is false");
    refused(name, "quantization_config", {{"quant_method", "gptq"}}, "without quantization");
  }
  // hidden_act is Gemma's own key, hidden_activation that of Gemma 2 and 3, where "gelu" is the exact form.
  refused("gemma3", "hidden_act", "relu", "which contradicts hidden_activation = \"gelu_pytorch_tanh\"");
  for (const char* name : {"gemma", "gemma2"}) refused(name, "use_bidirectional_attention", true, "expected false, or is_causal = false");
  json gelu = golden_hugging_face("gemma");
  gelu["hidden_act"] = "gelu";
  EXPECT_EQ(parse(gelu).model, parse(golden_hugging_face("gemma")).model);
  // Some layers have a sliding window, but its size is missing.
  json window = golden_hugging_face("gemma2");
  window.erase("layer_types");
  EXPECT_EQ(parse(window).model, parse(golden_hugging_face("gemma2")).model);
  window["sliding_window"] = nullptr;
  expect_error([&] { (void)parse(window); }, ExitCode::model, {"sliding_window = null", "some layers have a sliding window"});
  // Patterns that transformers does not read.
  json pattern = golden_hugging_face("olmo3");
  pattern["sliding_window_pattern"] = 2;
  EXPECT_EQ(parse(pattern).model, parse(golden_hugging_face("olmo3")).model);  // layer_types has priority over it
  pattern.erase("layer_types");
  expect_error([&] { (void)parse(pattern); }, ExitCode::model, {"sliding_window_pattern = 2", "supported by this family is 4"});
  json gemma = golden_hugging_face("gemma3");
  gemma.erase("layer_types");
  gemma["sliding_window_pattern"] = 3;
  gemma["_sliding_window_pattern"] = 3;
  EXPECT_EQ(parse(gemma).model, parse(golden_hugging_face("gemma3")).model);
  gemma["_sliding_window_pattern"] = 2;
  expect_error([&] { (void)parse(gemma); }, ExitCode::model, {"_sliding_window_pattern = 2", "does not read"});
  // GPT-2's values under the key names of other families.
  json gpt2 = golden_hugging_face("gpt2");
  refused("gpt2", "hidden_size", 64, "contradicts n_embd = 32");
  for (const auto& [own, common] : {std::pair{"n_embd", "hidden_size"},
                                    {"n_layer", "num_hidden_layers"},
                                    {"n_head", "num_attention_heads"},
                                    {"n_positions", "max_position_embeddings"}}) {
    gpt2[common] = gpt2[own];
    gpt2.erase(own);
  }
  EXPECT_EQ(parse(gpt2).model, parse(golden_hugging_face("gpt2")).model);
  EXPECT_TRUE(parse(gpt2).warnings.empty());
}

}  // namespace
}  // namespace millrace::layers
