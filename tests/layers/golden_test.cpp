#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <fstream>
#include <map>
#include <regex>

#include "layers/formats/config_file.hpp"
#include "layers/formats/stored_elements.hpp"
#include "tests/layers/golden_rows.hpp"
#include "tests/layers/model_fixture.hpp"

// Compares forward and backward of tiny models with the results of transformers with PyTorch, and of MaxText, from the same
// files.
namespace millrace::layers::testing {
namespace {

/// Captures the residual context before every decoder layer and, at the end, the last hidden state as the reference defines it:
/// the output of the final norm (transformers) or its input (MaxText). One microbatch after the other.
class HiddenStates final : public runtime::OperationHook {
 public:
  explicit HiddenStates(const ModelConfig& config) : layers_(config.layers), before_norm_(config.numerics == "maxtext") {}
  std::map<std::int64_t, std::vector<float>> states;

  void after(const Call& call) override {
    if (call.kind != runtime::ProgramKind::forward) return;
    const auto labelled = [&](runtime::ValueId id, const char* label) {
      const auto& labels = call.programs.value(id).labels;
      return std::find(labels.begin(), labels.end(), label) != labels.end();
    };
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      if (before_norm_ && labelled(call.operation.inputs[i], "decoder_output")) keep(layers_, call.inputs[i]);
      // Several operations of a layer may read it.
      if (call.operation.layer == last_ || !labelled(call.operation.inputs[i], "decoder_layer_input")) continue;
      last_ = call.operation.layer;
      keep(last_, call.inputs[i]);
    }
    if (!labelled(call.operation.outputs[0], "final_norm")) return;
    if (!before_norm_) keep(layers_, call.outputs[0]);
    last_ = -1;
  }

 private:
  void keep(std::int64_t layer, const kernels::Tensor& tensor) {
    auto& state = states[layer];
    state.insert(state.end(), tensor.as<float>(), tensor.as<float>() + tensor.elements());
  }
  std::int64_t layers_;
  bool before_norm_;
  int last_ = -1;
};

struct Case {
  const char* name;
  const char* layout;
  kernels::Implementation implementation;
};

/// The largest entry of a gradient; of the gradient of a single number the largest of that number in any layer, since one that is near 0
/// by cancellation says nothing of its terms. The number of Gemma 4's last layer multiplies what the final norm divides by its size again.
double scale_of(const runtime::SafetensorsFile& golden, const std::string& name, const std::vector<float>& expected) {
  if (expected.size() != 1) return largest(expected);
  const auto group = [](const std::string& text) { return std::regex_replace(text, std::regex("[0-9]+"), "*"); };
  double scale = 0;
  for (const auto& tensor : golden.tensors())
    if (group(tensor.name) == group(name)) scale = std::max<double>(scale, largest(read_floats(golden, tensor.name)));
  return scale;
}

class Golden : public ::testing::TestWithParam<Case> {};

TEST_P(Golden, AgreesWithItsReference) {
  const std::string folder = golden_folder(GetParam().name);
  const ConfigFile file = read_config_file(folder);
  const ModelConfig& config = file.model;
  const bool maxtext = config.numerics == "maxtext";
  const auto tolerance = nlohmann::json::parse(std::ifstream(folder + "/tolerance.json"));
  const runtime::SafetensorsFile golden(folder + "/golden.safetensors");
  const GoldenRows given(golden);
  // MaxText rounds a tied table's gradient over the whole batch: a sum of rounded parts would be a different number.
  const std::int64_t rows = maxtext && config.tie_word_embeddings ? given.rows : 1;
  const std::int64_t microbatches = given.rows / rows;

  LoopOptions options;
  options.layout = GetParam().layout;
  options.rows = rows;
  options.sequence = given.sequence;
  options.losses = file.losses;
  options.implementation = GetParam().implementation;
  Model model(config, options);
  model.load(folder);

  HiddenStates hidden(config);
  const auto sums = model.loop().accumulate(model.context(), microbatches, given.counted(), given.batches(rows), &hidden);
  EXPECT_EQ(sums.targets, given.counted());
  EXPECT_NEAR(sums.mean().total, read_floats(golden, "loss").at(0), tolerance.at("loss").get<double>());

  ASSERT_EQ(static_cast<std::int64_t>(hidden.states.size()), config.layers + 1);
  for (const auto& [layer, state] : hidden.states) {
    if (maxtext && layer == 0) continue;  // its list begins after the first layer
    const auto name = "hidden." + std::to_string(maxtext ? layer - 1 : layer);
    const auto expected = read_floats(golden, name);
    EXPECT_LE(largest_difference(state, expected), tolerance.at("hidden").get<double>() * largest(expected)) << name;
  }
  int gradients = 0;
  for (const auto& spec : model_parameters(config)) {
    if (!spec.trained && golden.find("grad." + spec.name) == nullptr) continue;
    for (const auto& [name, found] : as_stored(spec, model.gradient(spec.name))) {
      const auto expected = read_floats(golden, "grad." + name);
      const double scale = scale_of(golden, "grad." + name, expected);
      const double bound = std::max(tolerance.at("grad").get<double>() * scale, tolerance.at("grad_floor").get<double>());
      EXPECT_LE(largest_difference(found, expected), bound) << name;
      ++gradients;
    }
  }
  EXPECT_EQ(gradients, static_cast<int>(std::count_if(golden.tensors().begin(), golden.tensors().end(),
                                                      [](const auto& tensor) { return tensor.name.starts_with("grad."); })));

  if (golden.find("logits") == nullptr) return;  // MaxText computes none where it trains indexers alone
  std::vector<float> logits;
  for (std::int64_t m = 0; m < microbatches; ++m) {
    const auto part = model.logits([&](std::int64_t, const runtime::BatchView& batch) { given.batches(rows)(m, batch); });
    logits.insert(logits.end(), part.begin(), part.end());
  }
  EXPECT_LE(largest_difference(logits, read_floats(golden, "logits")), tolerance.at("logits").get<double>());
}

INSTANTIATE_TEST_SUITE_P(
    Families, Golden,
    ::testing::Values(
        Case{"hf_llama", "", kernels::Implementation::fast}, Case{"hf_llama", "", kernels::Implementation::reference},
        Case{"hf_llama", "E t | t | t H", kernels::Implementation::fast}, Case{"hf_llama3", "", kernels::Implementation::fast},
        Case{"hf_llama3", "", kernels::Implementation::reference}, Case{"hf_llama3", "E | t*3 | H", kernels::Implementation::fast},
        Case{"hf_mistral", "", kernels::Implementation::fast}, Case{"hf_mistral", "E t | t | t H", kernels::Implementation::reference},
        Case{"hf_gemma", "", kernels::Implementation::fast}, Case{"hf_gemma", "E t | t | t H", kernels::Implementation::reference},
        Case{"hf_gemma2", "", kernels::Implementation::fast}, Case{"hf_gemma2", "E t | t*2 | t H", kernels::Implementation::reference},
        Case{"hf_gemma3", "", kernels::Implementation::fast}, Case{"hf_gemma3", "E t | t | t H", kernels::Implementation::reference},
        Case{"hf_gemma4", "", kernels::Implementation::fast}, Case{"hf_gemma4", "E t | t*4 | t H", kernels::Implementation::reference},
        Case{"hf_gemma4_small", "", kernels::Implementation::fast},
        Case{"hf_gemma4_small", "E t*2 | t*2 | t H", kernels::Implementation::reference},
        Case{"hf_qwen2", "", kernels::Implementation::fast}, Case{"hf_qwen2", "E t | t | t H", kernels::Implementation::reference},
        Case{"hf_qwen3", "", kernels::Implementation::fast}, Case{"hf_qwen3", "E t | t | t H", kernels::Implementation::reference},
        Case{"hf_mixtral", "", kernels::Implementation::fast}, Case{"hf_mixtral", "E t | t | t H", kernels::Implementation::reference},
        Case{"hf_qwen3_moe", "", kernels::Implementation::fast}, Case{"hf_qwen3_moe", "E t | t | t H", kernels::Implementation::reference},
        Case{"hf_qwen3_next", "", kernels::Implementation::fast},
        Case{"hf_qwen3_next", "E t | t*2 | t H", kernels::Implementation::reference}, Case{"hf_qwen3_5", "", kernels::Implementation::fast},
        Case{"hf_qwen3_5", "E t | t*2 | t H", kernels::Implementation::reference}, Case{"hf_gpt_oss", "", kernels::Implementation::fast},
        Case{"hf_gpt_oss", "E t | t | t H", kernels::Implementation::reference}, Case{"hf_deepseek_v3", "", kernels::Implementation::fast},
        Case{"hf_deepseek_v3", "E t | t | t H", kernels::Implementation::reference},
        Case{"maxtext_deepseek", "", kernels::Implementation::fast},
        Case{"maxtext_deepseek", "E t | t | t H", kernels::Implementation::reference},
        Case{"maxtext_deepseek_mhc", "E t | t | H", kernels::Implementation::fast},
        Case{"maxtext_deepseek_mhc", "", kernels::Implementation::reference},
        Case{"maxtext_deepseek_mhc_lite", "E | t*2 H", kernels::Implementation::fast},
        Case{"maxtext_deepseek_engram", "", kernels::Implementation::fast},
        Case{"maxtext_deepseek_engram", "E t | t | t H", kernels::Implementation::reference},
        Case{"maxtext_deepseek_v2", "", kernels::Implementation::fast},
        Case{"maxtext_deepseek_v2", "E t | t*2 H", kernels::Implementation::reference},
        Case{"maxtext_deepseek_unprefixed", "", kernels::Implementation::fast},
        Case{"maxtext_deepseek_unprefixed", "E t*2 | t H", kernels::Implementation::reference},
        Case{"hf_llama4", "", kernels::Implementation::fast}, Case{"hf_llama4", "E t | t*2 | t H", kernels::Implementation::reference},
        Case{"hf_gpt2", "", kernels::Implementation::fast}, Case{"hf_gpt2", "E t | t | t H", kernels::Implementation::reference},
        Case{"hf_deepseek_v32", "", kernels::Implementation::fast},
        Case{"hf_deepseek_v32", "E t | t | t H", kernels::Implementation::reference},
        Case{"maxtext_deepseek_indexer", "", kernels::Implementation::fast},
        Case{"maxtext_deepseek_indexer", "E t | t | t H", kernels::Implementation::reference},
        Case{"maxtext_deepseek_indexer_warmup", "", kernels::Implementation::fast},
        Case{"maxtext_deepseek_indexer_warmup", "E t | t | H", kernels::Implementation::reference},
        Case{"hf_olmo3", "", kernels::Implementation::fast}, Case{"hf_olmo3", "E t | t*2 | t H", kernels::Implementation::reference},
        Case{"hf_llama_dynamic", "", kernels::Implementation::fast},
        Case{"hf_llama_dynamic", "E t | t | t H", kernels::Implementation::reference},
        Case{"hf_qwen3_window", "", kernels::Implementation::fast},
        Case{"hf_qwen3_window", "E t | t | t H", kernels::Implementation::reference},
        Case{"hf_gemma2_mixed", "", kernels::Implementation::fast},
        Case{"hf_gemma2_mixed", "E t | t | t H", kernels::Implementation::reference},
        Case{"hf_gpt2_scaled", "", kernels::Implementation::fast},
        Case{"hf_gpt2_scaled", "E t | t | t H", kernels::Implementation::reference},
        Case{"maxtext_default", "", kernels::Implementation::fast},
        Case{"maxtext_default", "E t | t | t H", kernels::Implementation::reference},
        Case{"maxtext_default_share_kv", "", kernels::Implementation::fast},
        Case{"maxtext_default_share_kv", "E t | t H", kernels::Implementation::reference},
        Case{"maxtext_simple", "", kernels::Implementation::fast},
        Case{"maxtext_simple", "E t | t*2 | H", kernels::Implementation::reference},
        Case{"maxtext_simple_mlp", "", kernels::Implementation::fast},
        Case{"maxtext_simple_mlp", "E t | t | t H", kernels::Implementation::reference},
        Case{"maxtext_llama2", "", kernels::Implementation::fast},
        Case{"maxtext_llama2", "E | t*2 | t H", kernels::Implementation::reference},
        Case{"maxtext_llama2_plain", "", kernels::Implementation::fast},
        Case{"maxtext_llama2_plain", "E t | t H", kernels::Implementation::reference},
        Case{"maxtext_mixtral", "", kernels::Implementation::fast},
        Case{"maxtext_mixtral", "E t | t H", kernels::Implementation::reference},
        Case{"maxtext_mixtral_capacity", "", kernels::Implementation::fast},
        Case{"maxtext_mixtral_capacity", "E t | t H", kernels::Implementation::reference},
        Case{"maxtext_qwen3_moe", "", kernels::Implementation::fast},
        Case{"maxtext_qwen3_moe", "E t | t H", kernels::Implementation::reference},
        Case{"maxtext_gpt_oss", "", kernels::Implementation::fast},
        Case{"maxtext_gpt_oss", "E t | t H", kernels::Implementation::reference},
        Case{"maxtext_llama2_fused", "", kernels::Implementation::fast},
        Case{"maxtext_llama2_fused", "E t | t H", kernels::Implementation::reference},
        Case{"maxtext_llama2_moba", "", kernels::Implementation::fast},
        Case{"maxtext_llama2_moba", "E t | t H", kernels::Implementation::reference},
        Case{"maxtext_llama4", "", kernels::Implementation::fast},
        Case{"maxtext_llama4", "E t | t*2 | t H", kernels::Implementation::reference},
        Case{"maxtext_llama2_tied_zloss", "", kernels::Implementation::fast},
        Case{"maxtext_llama2_tied_zloss", "E t | t H", kernels::Implementation::reference},
        Case{"maxtext_llama31_rope", "", kernels::Implementation::fast},
        Case{"maxtext_llama31_rope", "E t | t H", kernels::Implementation::reference},
        Case{"maxtext_gpt3", "", kernels::Implementation::fast}, Case{"maxtext_gpt3", "E t | t | H", kernels::Implementation::reference},
        Case{"maxtext_gpt3_separate_qkv", "", kernels::Implementation::fast},
        Case{"maxtext_gpt3_separate_qkv", "E t | t H", kernels::Implementation::reference},
        Case{"maxtext_qwen3_next", "", kernels::Implementation::fast},
        Case{"maxtext_qwen3_next", "E t | t*2 | t H", kernels::Implementation::reference},
        Case{"maxtext_qwen3_5", "", kernels::Implementation::fast},
        Case{"maxtext_qwen3_5", "E t*3 | t H", kernels::Implementation::reference},
        Case{"maxtext_gemma", "", kernels::Implementation::fast}, Case{"maxtext_gemma", "E t | t H", kernels::Implementation::reference},
        Case{"maxtext_gemma2", "", kernels::Implementation::fast}, Case{"maxtext_gemma2", "E t | t H", kernels::Implementation::reference},
        Case{"maxtext_gemma3", "", kernels::Implementation::fast},
        Case{"maxtext_gemma3", "E t | t*4 | t H", kernels::Implementation::reference},
        Case{"maxtext_gemma4", "", kernels::Implementation::fast},
        Case{"maxtext_gemma4", "E t | t*4 | t H", kernels::Implementation::reference},
        Case{"maxtext_gemma4_moe", "", kernels::Implementation::fast},
        Case{"maxtext_gemma4_moe", "E t*3 | t*3 H", kernels::Implementation::reference},
        Case{"maxtext_gemma4_small", "", kernels::Implementation::fast},
        Case{"maxtext_gemma4_small", "E t*4 | t*3 | t*3 H", kernels::Implementation::reference},
        Case{"maxtext_mistral", "", kernels::Implementation::fast},
        Case{"maxtext_mistral", "E t | t H", kernels::Implementation::reference}, Case{"maxtext_olmo3", "", kernels::Implementation::fast},
        Case{"maxtext_olmo3", "E | t*3 | t H", kernels::Implementation::reference},
        Case{"maxtext_qwen2", "", kernels::Implementation::fast}, Case{"maxtext_qwen2", "E t | t H", kernels::Implementation::reference},
        Case{"maxtext_qwen3", "", kernels::Implementation::fast}, Case{"maxtext_qwen3", "E t | t H", kernels::Implementation::reference}));

}  // namespace
}  // namespace millrace::layers::testing
