#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "layers/formats/config_file.hpp"
#include "layers/models/model.hpp"
#include "tests/layers/golden_config.hpp"
#include "tests/support/expect_error.hpp"

// The keys of MaxText's hybrid blocks, Qwen3-Next and Qwen 3.5.
namespace millrace::layers {
namespace {

using nlohmann::json;
using tests::expect_error;

constexpr LayerKind linear = LayerKind::linear, full = LayerKind::full;

json golden(const std::string& name) { return golden_config("maxtext_" + name); }

TEST(MaxTextLinearAttention, ReadsTheKeysOfTheBlock) {
  for (const char* name : {"qwen3_next", "qwen3_5"}) {
    SCOPED_TRACE(name);
    const ModelSpec model = resolve(parse(golden(name)).model);
    const DeltaNetSpec expected{.key_heads = 2,
                                .value_heads = 4,
                                .key_head_dim = 6,
                                .value_head_dim = 4,
                                .taps = 4,
                                .grouped = true,
                                .reset_at_segments = false,
                                .round_decay = true};
    for (const std::size_t layer : {0U, 1U, 2U}) EXPECT_EQ(std::get<DeltaNetSpec>(model.layers[layer].mixer), expected) << layer;
    EXPECT_TRUE(model.layers[3].attention().output_gate);
    EXPECT_EQ(model.layers[3].attention().rope->proportion, 0.5);
    EXPECT_EQ(model.norm.offset, 1);
    for (const LayerSpec& layer : model.layers) {
      const auto& experts = std::get<ExpertsSpec>(layer.ffn);
      ASSERT_TRUE(experts.shared.has_value());
      EXPECT_EQ(experts.shared->width, 10);
      EXPECT_TRUE(experts.shared_gate);
    }
  }
}

TEST(MaxTextLinearAttention, CyclesOfLayers) {
  json config = golden("qwen3_next");
  config["inhomogeneous_layer_cycle_interval"] = 2;
  EXPECT_EQ(parse(config).model.layer_kinds, (std::vector{linear, full, linear, full}));
  config["inhomogeneous_layer_cycle_interval"] = 9;
  EXPECT_EQ(parse(config).model.layer_kinds, std::vector(4, linear));
  config.erase("inhomogeneous_layer_cycle_interval");
  EXPECT_EQ(parse(config).model.layer_kinds, std::vector(4, full));
}

TEST(MaxTextLinearAttention, OneExpertMeansAnMlp) {
  json config = golden("qwen3_5");
  config["num_experts"] = 1;
  config["num_experts_per_tok"] = 1;
  const ModelSpec model = resolve(parse(config).model);
  for (const LayerSpec& layer : model.layers) EXPECT_EQ(layer.mlp().width, 10);
  json next = golden("qwen3_next");
  next["num_experts"] = 1;
  expect_error([&] { (void)parse(next); }, ExitCode::model, {"num_experts = 1", "supported are 2 to"});
}

TEST(MaxTextLinearAttention, WrongValuesAreRefused) {
  const auto refused = [](const char* name, const json& changes, const std::vector<std::string>& says) {
    json config = golden(name);
    config.merge_patch(changes);
    expect_error([&] { (void)parse(config); }, ExitCode::model, says);
  };
  refused("qwen3_next", {{"gdn_num_value_heads", 3}}, {"gdn_num_value_heads = 3", "expected a multiple of gdn_num_key_heads = 2"});
  refused("qwen3_next", {{"gdn_conv_kernel_dim", 17}}, {"gdn_conv_kernel_dim = 17"});
  refused("qwen3_next", {{"use_qk_norm_in_gdn", false}}, {"use_qk_norm_in_gdn = false", "supported is true"});
  refused("qwen3_next", {{"partial_rotary_factor", 0.1}}, {"partial_rotary_factor = 0.1", "rotates 0 of head_dim = 8 features"});
  refused("qwen3_next", {{"rope_type", "llama3.1"}}, {"rope_type", "supported by decoder_block \"qwen3_next\" is \"default\""});
  refused("qwen3_next", {{"shared_experts", 2}}, {"shared_experts = 2", "supported is 1"});
  refused("qwen3_next", {{"use_mrope", true}}, {"use_mrope = true", "supported is false"});
  refused("qwen3_5", {{"mrope_section", {2, 2, 1}}}, {"mrope_section = [2,2,1]", "whose sum is 4"});
  refused("llama2", {{"inhomogeneous_layer_cycle_interval", 4}}, {"inhomogeneous_layer_cycle_interval = 4", "supported is 1"});
}

TEST(MaxTextLinearAttention, ExportIsReadBack) {
  json dense = golden("qwen3_5");
  dense["num_experts"] = 1;
  json recurrent = golden("qwen3_next");
  recurrent["inhomogeneous_layer_cycle_interval"] = 7;
  for (const json& config : {golden("qwen3_next"), golden("qwen3_5"), dense, recurrent}) {
    const ConfigFile file = parse(config);
    const std::string text = config_file_text(file, "float32");
    EXPECT_EQ(parse_config_file(text, "export").model, file.model) << text;
  }
  // What MaxText has no key for.
  ConfigFile file = parse(golden("qwen3_next"));
  file.model.layer_kinds = {full, linear, linear, full};
  expect_error([&] { (void)config_file_text(file, "float32"); }, ExitCode::model, {"cannot express model.layer_types"});
  file = parse(golden("qwen3_next"));
  file.model.gdn_reset_at_segments = true;
  expect_error([&] { (void)config_file_text(file, "float32"); }, ExitCode::model, {"cannot express model.gdn_reset_at_segments = true"});
  EXPECT_TRUE(std::get<DeltaNetSpec>(resolve(file.model).layers[0].mixer).reset_at_segments);
}

TEST(MaxTextLinearAttention, InitialValuesAreMaxTexts) {
  for (const ParameterSpec& spec : model_parameters(parse(golden("qwen3_next")).model)) {
    const auto is = [&](const char* end) { return spec.name.ends_with(end); };
    if (is(".A_log")) {
      EXPECT_EQ(spec.initial, (Initial{.kind = InitialKind::log_uniform, .least = 1e-9, .most = 16}));
    }
    if (is(".dt_bias") || is("rms_norm.scale")) {
      EXPECT_EQ(spec.initial.kind, InitialKind::ones) << spec.name;
    }
    if (is("_norm.scale") && !is("rms_norm.scale")) {
      EXPECT_EQ(spec.initial.kind, InitialKind::zeros) << spec.name;
    }
    // The variance of a truncated normal distribution is 1 / the number of inputs: 4 taps, or 16 features.
    if (is("conv1d.kernel")) {
      EXPECT_EQ(spec.initial.kind, InitialKind::truncated_normal);
      EXPECT_NEAR(spec.initial.deviation, 0.5 / 0.87962566103423978, 1e-12);
    }
    if (is("in_proj_qkvz.kernel")) {
      EXPECT_EQ(spec.initial.kind, InitialKind::truncated_normal);
    }
    if (is("attention.attention.key.kernel")) {
      EXPECT_EQ(spec.initial, (Initial{InitialKind::normal, 0.25}));
    }
  }
}

}  // namespace
}  // namespace millrace::layers
