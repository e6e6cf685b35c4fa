#include "layers/moe/mixture_of_experts.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "layers/initial_values.hpp"
#include "layers/models/standard_family.hpp"
#include "tests/layers/slopes.hpp"

// Mixtures of experts in the forms that families have: every form of the tensors, biases, clamped gates, scaled inputs, routers with a
// bias of either kind, shared experts with and without a gate.
namespace millrace::layers::testing {
namespace {

using kernels::Activation;
using kernels::ClampedGluOptions;
using kernels::RouterBias;
using kernels::RouterScore;
using kernels::RouterWeight;

constexpr ClampedGluOptions kClamp{.limit = 0.9F, .steepness = 1.702F, .offset = 1.0F};

ExpertsSpec plain_experts(const ModelConfig& config, Activation activation) { return softmax_experts(config, activation); }

/// gpt_oss.
ExpertsSpec biased_experts(const ModelConfig& config, Activation activation) {
  ExpertsSpec spec = softmax_experts(config, activation);
  spec.route.score = RouterScore::logit;
  spec.route.weight = RouterWeight::softmax;
  spec.route.normalise = false;
  spec.router_bias = true;
  spec.expert.bias = true;
  spec.expert.clamp = kClamp;
  return spec;
}

/// llama4, with two experts for a token.
ExpertsSpec scaled_experts(const ModelConfig& config, Activation activation) {
  ExpertsSpec spec = softmax_experts(config, activation);
  spec.route.score = RouterScore::logit;
  spec.route.weight = RouterWeight::sigmoid;
  spec.route.normalise = false;
  spec.scale_input = true;
  spec.shared = MlpSpec{.width = config.intermediate_size, .activation = activation};
  return spec;
}

/// deepseek.
ExpertsSpec corrected_experts(const ModelConfig& config, Activation activation) {
  ExpertsSpec spec = softmax_experts(config, activation);
  spec.route.score = RouterScore::sigmoid;
  spec.route.bias = RouterBias::choice;
  spec.route.scale = 2.5F;
  spec.shared = MlpSpec{.width = 2 * spec.expert.width, .activation = activation, .bias = true};
  return spec;
}

/// qwen3_next.
ExpertsSpec gated_shared_experts(const ModelConfig& config, Activation activation) {
  ExpertsSpec spec = softmax_experts(config, activation);
  spec.shared = MlpSpec{.width = spec.expert.width, .activation = activation};
  spec.shared_gate = true;
  return spec;
}

struct Mixture {
  const char* name;
  ExpertNames names;
  ExpertsSpec (*experts_of)(const ModelConfig& config, Activation activation);
};

constexpr Mixture kMixtures[] = {
    {"experts with biases, of one tensor each", {}, biased_experts},
    {"experts with biases, in stacks", {.storage = ExpertStorage::stacks}, biased_experts},
    {"experts with biases, in stacks with inputs first", {.storage = ExpertStorage::stacks_input_major}, biased_experts},
    {"experts with biases, interleaved", {.router = "router", .storage = ExpertStorage::interleaved_input_major}, biased_experts},
    {"plain experts in stacks", {.storage = ExpertStorage::stacks}, plain_experts},
    {"experts with scaled inputs",
     {.module = "feed_forward", .router = "router", .storage = ExpertStorage::stacks_input_major, .shared = "shared_expert"},
     scaled_experts},
    {"experts with a corrected choice", {}, corrected_experts},
    {"experts beside a gated one", {.shared = "shared_expert"}, gated_shared_experts},
};

void PrintTo(const Mixture& mixture, std::ostream* out) { *out << mixture.name; }

/// The families of the mixtures above, each with its mixture in every layer.
const std::map<std::string_view, const StandardFamily*>& families() {
  static const auto all = [] {
    std::map<std::string_view, const StandardFamily*> made;
    for (const Mixture& mixture : kMixtures) {
      static std::vector<std::unique_ptr<const StandardFamily>> kept;
      kept.push_back(std::make_unique<const StandardFamily>(FamilyTraits{.name = mixture.name, .keys = expert_keys(standard_keys())},
                                                            StandardBlocks{.experts = mixture.names, .experts_of = mixture.experts_of},
                                                            HuggingFaceClass{.model_type = mixture.name}));
      add_model_family(*kept.back());
      made[mixture.name] = kept.back().get();
    }
    return made;
  }();
  return all;
}

constexpr std::int64_t kRows = 2, kSequence = 7;

ModelConfig odd_model(const char* name) {
  (void)families();
  return {.family = name,
          .vocab_size = 61,
          .hidden_size = 22,
          .intermediate_size = 19,
          .layers = 2,
          .heads = 3,
          .kv_heads = 1,
          .head_dim = 6,
          .initializer_range = 0.3,
          .experts = 5,
          .experts_per_token = 2,
          .moe_intermediate_size = 13};
}

runtime::FillBatch batch() { return rows_of(random_ids(kRows * kSequence, 61, 5), kRows, kSequence); }

LoopOptions options(kernels::Implementation implementation) {
  LoopOptions options;
  options.rows = kRows;
  options.sequence = kSequence;
  options.losses = {.balance_loss = 0.1, .router_z_loss = 0.05};
  options.implementation = implementation;
  return options;
}

/// Random biases: a family begins with zeros, which would hide where they are added.
void initialise(Model& model) {
  model.initialise(9);
  for (const auto& spec : model_parameters(model.config()))
    if (spec.name.ends_with("bias")) initial_values({.name = spec.name, .shape = spec.shape}, 0.3, 9, 0, model.master(spec.name));
  model.refresh_copies();
}

class Mixtures : public ::testing::TestWithParam<Mixture> {};

TEST_P(Mixtures, GradientsAreSlopes) {
  Model model(odd_model(GetParam().name), options(kernels::Implementation::reference));
  initialise(model);
  expect_gradients_are_slopes(model, batch(), [](const std::string&) { return false; });
  for (const auto& spec : model_parameters(model.config())) {
    // The bias that serves the choice alone has none.
    EXPECT_EQ(largest(model.gradient(spec.name)) > 0, !spec.name.ends_with("correction_bias")) << spec.name;
  }
}

TEST_P(Mixtures, FastKernelsAgreeWithPlainOnes) {
  Model fast(odd_model(GetParam().name), options(kernels::Implementation::fast));
  Model plain(odd_model(GetParam().name), options(kernels::Implementation::reference));
  initialise(fast);
  initialise(plain);
  const auto found = fast.loop().accumulate(fast.context(), 1, 1, batch()),
             expected = plain.loop().accumulate(plain.context(), 1, 1, batch());
  EXPECT_NEAR(whole_loss(found.mean()), whole_loss(expected.mean()), 2e-5 * whole_loss(expected.mean()));
  for (const auto& spec : model_parameters(fast.config())) {
    const auto gradient = plain.gradient(spec.name);
    EXPECT_LE(largest_difference(fast.gradient(spec.name), gradient), 1e-4 * largest(gradient)) << spec.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, Mixtures, ::testing::ValuesIn(kMixtures));

/// Copies the experts of `from`, of one tensor each, into the stacks of `to`, expert by expert.
void copy_experts(Model& from, Model& to, const std::string& module, ExpertStorage storage) {
  const std::int64_t experts = 5, hidden = 13, width = 22;
  const bool input_major = storage != ExpertStorage::stacks, interleaved = storage == ExpertStorage::interleaved_input_major;
  const auto at = [&](const std::string& name, std::int64_t i) {
    return from.master(module + ".experts." + name)[static_cast<std::size_t>(i)];
  };
  const auto both = to.master(module + ".experts.gate_up_proj"), both_bias = to.master(module + ".experts.gate_up_proj_bias");
  const auto down = to.master(module + ".experts.down_proj"), down_bias = to.master(module + ".experts.down_proj_bias");
  for (std::int64_t e = 0; e < experts; ++e) {
    for (std::int64_t f = 0; f < hidden; ++f)
      for (const auto& [name, part] : {std::pair{"gate_proj", 0}, std::pair{"up_proj", 1}}) {
        const std::int64_t feature = interleaved ? 2 * f + part : part * hidden + f;
        both_bias[static_cast<std::size_t>(e * 2 * hidden + feature)] = at(std::string(name) + ".bias", e * hidden + f);
        for (std::int64_t d = 0; d < width; ++d) {
          const std::int64_t place = input_major ? (e * width + d) * 2 * hidden + feature : (e * 2 * hidden + feature) * width + d;
          both[static_cast<std::size_t>(place)] = at(std::string(name) + ".weight", (e * hidden + f) * width + d);
        }
      }
    for (std::int64_t d = 0; d < width; ++d) {
      down_bias[static_cast<std::size_t>(e * width + d)] = at("down_proj.bias", e * width + d);
      for (std::int64_t f = 0; f < hidden; ++f) {
        const std::int64_t place = input_major ? (e * hidden + f) * width + d : (e * width + d) * hidden + f;
        down[static_cast<std::size_t>(place)] = at("down_proj.weight", (e * width + d) * hidden + f);
      }
    }
  }
}

TEST(MixtureOfExperts, TheFormOfTensorsChangesNoResult) {
  Model matrices(odd_model(kMixtures[0].name), options(kernels::Implementation::reference));
  initialise(matrices);
  const auto expected = matrices.logits(batch());
  for (const Mixture& mixture : {kMixtures[1], kMixtures[2], kMixtures[3]}) {
    Model stacks(odd_model(mixture.name), options(kernels::Implementation::reference));
    for (const auto& spec : model_parameters(stacks.config())) {
      if (spec.name.find(".experts.") != std::string::npos) continue;
      std::string name = spec.name;
      if (const auto router = name.find(".router."); router != std::string::npos) name.replace(router, 8, ".gate.");
      std::ranges::copy(matrices.master(name), stacks.master(spec.name).begin());
    }
    for (const char* module : {"model.layers.0.mlp", "model.layers.1.mlp"}) copy_experts(matrices, stacks, module, mixture.names.storage);
    stacks.refresh_copies();
    EXPECT_LE(largest_difference(stacks.logits(batch()), expected), 1e-5 * largest(expected)) << mixture.name;
  }
}

TEST(MixtureOfExperts, TensorsHaveTheNamesAndShapesOfCheckpoints) {
  const auto tensors = [](const Mixture& mixture) {
    std::map<std::string, std::pair<std::vector<std::int64_t>, double>> found;
    for (const auto& spec : model_parameters(odd_model(mixture.name)))
      if (spec.layer == 1 && spec.name.find("self_attn") == std::string::npos && spec.name.find("norm") == std::string::npos)
        found[spec.name.substr(std::string("model.layers.1.").size())] = {spec.shape.sizes(), spec.active};
    return found;
  };
  const auto interleaved = tensors(kMixtures[3]);
  EXPECT_EQ(interleaved.size(), 6U);
  EXPECT_EQ(interleaved.at("mlp.router.weight"), (std::pair{std::vector<std::int64_t>{5, 22}, 1.0}));
  EXPECT_EQ(interleaved.at("mlp.router.bias"), (std::pair{std::vector<std::int64_t>{5}, 1.0}));
  EXPECT_EQ(interleaved.at("mlp.experts.gate_up_proj"), (std::pair{std::vector<std::int64_t>{5, 22, 26}, 0.4}));
  EXPECT_EQ(interleaved.at("mlp.experts.gate_up_proj_bias"), (std::pair{std::vector<std::int64_t>{5, 26}, 0.4}));
  EXPECT_EQ(interleaved.at("mlp.experts.down_proj"), (std::pair{std::vector<std::int64_t>{5, 13, 22}, 0.4}));
  EXPECT_EQ(interleaved.at("mlp.experts.down_proj_bias"), (std::pair{std::vector<std::int64_t>{5, 22}, 0.4}));
  const auto corrected = tensors(kMixtures[6]);
  EXPECT_EQ(corrected.at("mlp.gate.e_score_correction_bias"), (std::pair{std::vector<std::int64_t>{5}, 1.0}));
  EXPECT_EQ(corrected.at("mlp.shared_experts.down_proj.weight"), (std::pair{std::vector<std::int64_t>{22, 26}, 1.0}));
  EXPECT_EQ(tensors(kMixtures[7]).at("mlp.shared_expert_gate.weight"), (std::pair{std::vector<std::int64_t>{1, 22}, 1.0}));
  EXPECT_EQ(tensors(kMixtures[5]).at("feed_forward.experts.gate_up_proj"), (std::pair{std::vector<std::int64_t>{5, 22, 26}, 0.4}));
}

}  // namespace
}  // namespace millrace::layers::testing
