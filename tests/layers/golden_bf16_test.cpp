#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <ostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "layers/formats/config_file.hpp"
#include "layers/formats/stored_elements.hpp"
#include "tests/layers/golden_rows.hpp"
#include "tests/layers/model_fixture.hpp"
#include "tests/layers/rounding_noise.hpp"

// MaxText's folders in bf16. There is no recorded bf16 run of another implementation for them, so the bounds are derived from the
// arithmetic: docs/numerics.md, section "bf16 without a PyTorch reference".
namespace millrace::layers::testing {
namespace {

/// |found − expected|₂ / |expected|₂ by tensor, and the loss's absolute difference.
using Distances = std::map<std::string, double>;

double distance(const std::vector<float>& found, const std::vector<float>& expected) {
  double square = 0, reference = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    square += std::pow(static_cast<double>(found.at(i)) - expected[i], 2);
    reference += std::pow(static_cast<double>(expected[i]), 2);
  }
  return std::sqrt(square / reference);
}

/// Changes that are applied to a model before it runs.
struct Mutant {
  const char* folder;
  const char* what;
  std::function<void(ModelConfig& config)> config;
  std::function<void(const std::string& name, std::span<float> values)> parameter;
  double z_loss = 1;  // multiplies the folder's z-loss
};

/// A golden folder whose models run forward and backward.
class Folder {
 public:
  explicit Folder(const std::string& name)
      : path_(golden_folder(name)), file_(read_config_file(path_)), golden_(path_ + "/golden.safetensors"), rows_(golden_) {}

  [[nodiscard]] Roundings roundings() const {
    return {file_.model, {.rows = rows_.rows, .sequence = rows_.sequence, .losses = file_.losses}};
  }

  /// Distances from the golden vectors. All rows are one microbatch.
  [[nodiscard]] Distances run(kernels::DType compute, const Mutant& mutant, RoundingNoise* noise = nullptr) const {
    ModelConfig config = file_.model;
    if (mutant.config) mutant.config(config);
    LoopOptions options;
    options.compute = compute;
    options.rows = rows_.rows;
    options.sequence = rows_.sequence;
    options.losses.z_loss = mutant.z_loss * file_.losses.z_loss;
    Model model(config, options);
    model.load(path_);
    if (mutant.parameter) {
      for (const ParameterSpec& spec : model_parameters(config)) mutant.parameter(spec.name, model.master(spec.name));
      model.refresh_copies();
    }

    Distances distances;
    const auto fill = rows_.batches(rows_.rows);
    const auto sums = model.loop().accumulate(model.context(), 1, rows_.counted(), fill, noise);
    distances["loss"] = std::fabs(sums.mean().total - read_floats(golden_, "loss").at(0));
    for (const ParameterSpec& spec : model_parameters(config)) {
      auto found = model.gradient(spec.name);
      if (spec.stored.transposed) found = transposed(found, spec.shape[0], spec.shape[1]);
      distances["grad." + spec.name] = distance(found, read_floats(golden_, "grad." + spec.name));
    }
    distances["logits"] = distance(model.logits(fill, noise), read_floats(golden_, "logits"));
    return distances;
  }

 private:
  std::string path_;
  ConfigFile file_;
  runtime::SafetensorsFile golden_;
  GoldenRows rows_;
};

constexpr int draws = 24;
/// Student's t with 23 degrees of freedom exceeds this once in a million.
constexpr double student = 6.30;

/// Distances of the fp32 model under random roundings, and the prediction for a run in bf16, which is one more draw: the
/// logarithm of a norm is approximately normal, so it is within mean ± t·deviation·√(1 + 1/draws). The loss's error is itself
/// approximately normal, around 0.
class DrawnDistances {
 public:
  explicit DrawnDistances(const Folder& folder) {
    const Roundings roundings = folder.roundings();
    const Mutant rounded_parameters{.folder = "", .what = "", .parameter = [&](const std::string& name, std::span<float> values) {
                                      if (roundings.parameters.contains(name))
                                        for (float& value : values) value = rounded(value);
                                    }};
    for (int i = 0; i < draws; ++i) {
      RoundingNoise noise(roundings, static_cast<std::uint64_t>(i));
      for (const auto& [name, distance] : folder.run(kernels::DType::f32, rounded_parameters, &noise)) drawn_[name].push_back(distance);
      for (const auto& [name, count] : roundings.values) EXPECT_TRUE(noise.met().contains(name)) << name << " is rounded in bf16 alone";
    }
  }

  /// Range of the tensor's distance, which is left once in half a million cases.
  [[nodiscard]] std::pair<double, double> range(const std::string& name) const {
    const auto& values = drawn_.at(name);
    const double wider = student * std::sqrt(1 + 1.0 / draws);
    double mean = 0, square = 0;
    if (name == "loss") {
      for (const double value : values) square += value * value / draws;
      return {0, wider * std::sqrt(square)};
    }
    for (const double value : values) mean += std::log(value) / draws;
    for (const double value : values) square += std::pow(std::log(value) - mean, 2) / (draws - 1);
    return {std::exp(mean - wider * std::sqrt(square)), std::exp(mean + wider * std::sqrt(square))};
  }

  /// Tensors whose distances are outside of their ranges, each with its numbers.
  [[nodiscard]] std::vector<std::string> outside(const Distances& distances) const {
    std::vector<std::string> list;
    for (const auto& [name, distance] : distances) {
      const auto [low, high] = range(name);
      if (!(low <= distance && distance <= high))
        list.push_back(fmt::format("{}: {:.3g}, expected {:.3g} to {:.3g}", name, distance, low, high));
    }
    return list;
  }

 private:
  std::map<std::string, std::vector<double>> drawn_;
};

/// The draws of a folder, computed once.
const DrawnDistances& drawn(const std::string& folder) {
  static std::map<std::string, DrawnDistances> all;
  const auto found = all.find(folder);
  return found != all.end() ? found->second : all.emplace(folder, Folder(folder)).first->second;
}

class MaxTextInBf16 : public ::testing::TestWithParam<const char*> {};

TEST_P(MaxTextInBf16, IsAsFarAsItsRoundingsExplain) {
  EXPECT_EQ(drawn(GetParam()).outside(Folder(GetParam()).run(kernels::DType::bf16, {})), std::vector<std::string>{});
}

INSTANTIATE_TEST_SUITE_P(Folders, MaxTextInBf16,
                         ::testing::Values("maxtext_default", "maxtext_default_share_kv", "maxtext_simple", "maxtext_simple_mlp",
                                           "maxtext_llama2", "maxtext_llama2_plain", "maxtext_llama2_fused", "maxtext_llama2_tied_zloss",
                                           "maxtext_llama31_rope", "maxtext_gpt3", "maxtext_gpt3_separate_qkv", "maxtext_gemma",
                                           "maxtext_gemma2", "maxtext_gemma3", "maxtext_gemma4", "maxtext_gemma4_small", "maxtext_mistral",
                                           "maxtext_olmo3", "maxtext_qwen2", "maxtext_qwen3"),
                         [](const auto& one) { return one.param; });

/// Multiplies a parameter, or replaces it by a value.
auto times(std::string parameter, float factor) {
  return [parameter = std::move(parameter), factor](const std::string& name, std::span<float> values) {
    if (name == parameter)
      for (float& value : values) value *= factor;
  };
}
auto becomes(std::string parameter, float replacement) {
  return [parameter = std::move(parameter), replacement](const std::string& name, std::span<float> values) {
    if (name == parameter) std::ranges::fill(values, replacement);
  };
}

/// Mistakes that a bound must detect: each is out of range in bf16.
class MistakeInBf16 : public ::testing::TestWithParam<Mutant> {};

TEST_P(MistakeInBf16, IsFound) {
  const Mutant& mutant = GetParam();
  EXPECT_NE(drawn(mutant.folder).outside(Folder(mutant.folder).run(kernels::DType::bf16, mutant)), std::vector<std::string>{});
}

void PrintTo(const Mutant& mutant, std::ostream* out) { *out << mutant.folder << ": " << mutant.what; }

INSTANTIATE_TEST_SUITE_P(
    Mutants, MistakeInBf16,
    ::testing::Values(
        Mutant{"maxtext_default", "epsilon", [](ModelConfig& config) { config.rms_norm_eps = 1e-2; }},
        Mutant{"maxtext_default", "scale_of_one_norm", {}, becomes("decoder.layers_1.pre_self_attention_norm.scale", 1)},
        Mutant{"maxtext_default_share_kv", "epsilon", [](ModelConfig& config) { config.rms_norm_eps = 0.1; }},
        Mutant{"maxtext_simple", "one_kernel", {}, times("decoder.layers_0.weights", 1.0F + 1.0F / 16)},
        Mutant{"maxtext_simple_mlp", "one_kernel", {}, times("decoder.layers_0.ff_1", 1.0F + 1.0F / 16)},
        Mutant{"maxtext_llama2", "final_norm", {}, becomes("decoder.decoder_norm.scale", 1)},
        Mutant{"maxtext_llama2_plain", "rope_theta", [](ModelConfig& config) { config.rope.theta *= 2; }},
        Mutant{"maxtext_llama2_fused", "epsilon", [](ModelConfig& config) { config.rms_norm_eps = 0.1; }},
        Mutant{"maxtext_llama2_tied_zloss", "z_loss", {}, {}, 0},
        Mutant{"maxtext_llama2_tied_zloss", "scale_of_logits", [](ModelConfig& config) { config.normalize_embedding_logits ^= true; }},
        Mutant{"maxtext_llama31_rope", "pairs_of_rope", [](ModelConfig& config) { config.rope_interleaved ^= true; }},
        Mutant{"maxtext_gpt3", "one_bias", {}, becomes("decoder.layers_1.mlp.wi.bias", 0)},
        Mutant{"maxtext_gpt3", "epsilon", [](ModelConfig& config) { config.rms_norm_eps = 1e-2; }},
        Mutant{"maxtext_gpt3_separate_qkv", "bias_of_queries", {}, becomes("decoder.layers_0.self_attention.query.bias", 0)},
        Mutant{"maxtext_gpt3_separate_qkv", "bias_of_values", {}, becomes("decoder.layers_0.self_attention.value.bias", 0)},
        Mutant{"maxtext_gemma", "scale_of_logits", [](ModelConfig& config) { config.normalize_embedding_logits ^= true; }},
        Mutant{"maxtext_gemma2", "cap_of_scores", [](ModelConfig& config) { config.attn_logit_softcapping = 0; }},
        Mutant{"maxtext_gemma2", "cap_of_logits", [](ModelConfig& config) { config.final_logit_softcapping = 0; }},
        Mutant{"maxtext_gemma2", "window", [](ModelConfig& config) { config.sliding_window += 1; }},
        Mutant{"maxtext_gemma2", "norm_of_the_second_half", {}, becomes("decoder.layers_1.post_ffw_norm_global.scale", 1)},
        Mutant{"maxtext_gemma3", "norm_of_queries", {}, becomes("decoder.layers_5.self_attention.query_norm.scale", 1)},
        Mutant{"maxtext_gemma3", "kinds_of_layers", [](ModelConfig& config) { config.layer_kinds.assign(6, LayerKind::sliding); }},
        Mutant{"maxtext_gemma3", "local_rotation", [](ModelConfig& config) { config.rope_local.theta = 0; }},
        Mutant{"maxtext_gemma3", "scale_of_scores", [](ModelConfig& config) { config.query_pre_attn_scalar = 12; }},
        Mutant{"maxtext_gemma4", "number_of_a_layer", {}, becomes("decoder.layers_2.layer_scalar", 1)},
        Mutant{"maxtext_gemma4_small", "gate_of_inputs", {}, becomes("decoder.layers_7.per_layer_input_gate.kernel", 0)},
        Mutant{"maxtext_mistral", "rope_theta", [](ModelConfig& config) { config.rope.theta = 1e4; }},
        Mutant{"maxtext_olmo3", "norm_of_keys", {}, becomes("decoder.layers_0.attention.key_norm.scale", 1)},
        Mutant{"maxtext_olmo3", "factor_of_yarn", [](ModelConfig& config) { config.rope.attention_factor = 1; }},
        Mutant{"maxtext_olmo3", "window", [](ModelConfig& config) { config.sliding_window += 1; }},
        Mutant{"maxtext_qwen2", "bias_of_queries", {}, becomes("decoder.layers_0.self_attention.query.bias", 0)},
        Mutant{"maxtext_qwen3", "norm_of_keys", {}, becomes("decoder.layers_1.self_attention.key_norm.scale", 1)}),
    [](const auto& one) { return std::string(one.param.folder) + "_" + one.param.what; });

}  // namespace
}  // namespace millrace::layers::testing
