#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <map>

#include "layers/config_file.hpp"
#include "tests/layers/model_fixture.hpp"

// Forward and backward of tiny models against what transformers and PyTorch computed from the same files.
namespace millrace::layers::testing {
namespace {

/// Keeps the input of every decoder layer and what the final norm made, one microbatch after the other.
class HiddenStates final : public runtime::OperationHook {
 public:
  explicit HiddenStates(std::int64_t layers) : layers_(layers) {}
  std::map<std::int64_t, std::vector<float>> states;

  void after(const Call& call) override {
    if (call.kind != runtime::ProgramKind::forward) return;
    const auto labelled = [&](runtime::ValueId id, const char* label) {
      const auto& labels = call.programs.value(id).labels;
      return std::find(labels.begin(), labels.end(), label) != labels.end();
    };
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      // Several operations of a layer may read it.
      if (call.operation.layer == last_ || !labelled(call.operation.inputs[i], "decoder_layer_input")) continue;
      last_ = call.operation.layer;
      keep(last_, call.inputs[i]);
    }
    if (!labelled(call.operation.outputs[0], "final_norm")) return;
    keep(layers_, call.outputs[0]);
    last_ = -1;
  }

 private:
  void keep(std::int64_t layer, const kernels::Tensor& tensor) {
    auto& state = states[layer];
    state.insert(state.end(), tensor.as<float>(), tensor.as<float>() + tensor.elements());
  }
  std::int64_t layers_;
  int last_ = -1;
};

struct Case {
  const char* name;
  const char* layout;
  kernels::Implementation implementation;
};

class Golden : public ::testing::TestWithParam<Case> {};

TEST_P(Golden, AgreesWithTransformers) {
  const std::string folder = golden_folder(GetParam().name);
  const ModelConfig config = read_config_file(folder).model;
  const auto tolerance = nlohmann::json::parse(std::ifstream(folder + "/tolerance.json"));
  const runtime::SafetensorsFile golden(folder + "/golden.safetensors");
  const auto& shape = golden.at("input_ids").shape;
  const std::int64_t rows = shape[0], sequence = shape[1];

  LoopOptions options;
  options.layout = GetParam().layout;
  options.sequence = sequence;
  options.implementation = GetParam().implementation;
  Model model(config, options);
  model.load(folder);
  const auto ids = read_ids(golden, "input_ids");
  const auto fill = rows_of(ids, 1, sequence);

  HiddenStates hidden(config.layers);
  const auto sums = model.loop().accumulate(model.stream(), rows, rows * (sequence - 1), fill, &hidden);
  EXPECT_EQ(sums.targets, rows * (sequence - 1));
  EXPECT_NEAR(sums.loss / static_cast<double>(sums.targets), read_floats(golden, "loss").at(0), tolerance.at("loss").get<double>());

  ASSERT_EQ(static_cast<std::int64_t>(hidden.states.size()), config.layers + 1);
  for (const auto& [layer, state] : hidden.states) {
    const auto wanted = read_floats(golden, "hidden." + std::to_string(layer));
    EXPECT_LE(largest_difference(state, wanted), tolerance.at("hidden").get<double>() * largest(wanted)) << "hidden." << layer;
  }
  int gradients = 0;
  for (const auto& spec : model_parameters(config)) {
    const auto wanted = read_floats(golden, "grad." + spec.name);
    const double bound = std::max(tolerance.at("grad").get<double>() * largest(wanted), tolerance.at("grad_floor").get<double>());
    EXPECT_LE(largest_difference(model.gradient(spec.name), wanted), bound) << spec.name;
    ++gradients;
  }
  EXPECT_EQ(gradients, static_cast<int>(std::count_if(golden.tensors().begin(), golden.tensors().end(),
                                                      [](const auto& tensor) { return tensor.name.starts_with("grad."); })));

  std::vector<float> logits;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto begin = ids.begin() + row * sequence;
    const auto part = model.logits(rows_of({begin, begin + sequence}, 1, sequence));
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
        Case{"hf_qwen2", "", kernels::Implementation::fast}, Case{"hf_qwen2", "E t | t | t H", kernels::Implementation::reference},
        Case{"hf_qwen3", "", kernels::Implementation::fast}, Case{"hf_qwen3", "E t | t | t H", kernels::Implementation::reference},
        Case{"hf_gpt2", "", kernels::Implementation::fast}, Case{"hf_gpt2", "E t | t | t H", kernels::Implementation::reference},
        Case{"hf_olmo3", "", kernels::Implementation::fast}, Case{"hf_olmo3", "E t | t*2 | t H", kernels::Implementation::reference}));

/// bf16 compute against the fp32 truth: logits within so much of the largest, gradients within so much in norm.
TEST(GoldenBf16, StaysNear) {
  struct Bound {
    const char* name;
    double logits = 5e-2, gradients = 7e-2;
  };
  for (const auto& [name, of_logits, of_gradients] :
       {Bound{"hf_llama", 3e-2, 5e-2}, Bound{"hf_llama3", 3e-2, 5e-2}, Bound{"hf_mistral"}, Bound{"hf_gemma"}, Bound{"hf_gemma2"},
        Bound{"hf_gemma3"}, Bound{"hf_qwen2"}, Bound{"hf_qwen3"}, Bound{"hf_olmo3"}, Bound{"hf_gpt2"}}) {
    const std::string folder = golden_folder(name);
    const ModelConfig config = read_config_file(folder).model;
    const runtime::SafetensorsFile golden(folder + "/golden.safetensors");
    LoopOptions options;
    options.compute = kernels::DType::bf16;
    options.rows = 2;
    options.sequence = 20;
    Model model(config, options);
    model.load(folder);
    const auto fill = rows_of(read_ids(golden, "input_ids"), 2, 20);
    const auto sums = model.loop().accumulate(model.stream(), 1, 38, fill);
    EXPECT_NEAR(sums.loss / 38, read_floats(golden, "loss").at(0), 0.03) << name;
    for (const auto& spec : model_parameters(config)) {
      const auto wanted = read_floats(golden, "grad." + spec.name);
      const auto found = model.gradient(spec.name);
      double difference = 0, size = 0;
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        difference += std::pow(static_cast<double>(found[i]) - wanted[i], 2);
        size += std::pow(static_cast<double>(wanted[i]), 2);
      }
      EXPECT_LE(std::sqrt(difference / size), of_gradients) << name << " " << spec.name;
    }
    const auto wanted = read_floats(golden, "logits");
    EXPECT_LE(largest_difference(model.logits(fill), wanted), of_logits * largest(wanted)) << name;
  }
}

}  // namespace
}  // namespace millrace::layers::testing
