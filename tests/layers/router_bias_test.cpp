#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "layers/formats/config_file.hpp"
#include "runtime/engine/load_balance.hpp"
#include "tests/layers/model_fixture.hpp"
#include "tests/support/expect_error.hpp"

// The biases by which routers choose move towards even loads after a step, by the counts of the whole step.
namespace millrace::layers::testing {
namespace {

constexpr double rate = 0.125;

/// Sigmoids choose two of five experts, by a bias that is no part of the weights.
ModelConfig with_biases() {
  ModelConfig config = tiny_model(false);
  config.family = "mixtral";
  config.numerics = "maxtext";
  config.experts = 5;
  config.experts_per_token = 2;
  config.routed_score = kernels::RouterScore::sigmoid;
  config.routed_bias = kernels::RouterBias::choice;
  return config;
}

std::string bias_of(std::int64_t layer) { return "decoder.layers_" + std::to_string(layer) + ".MoeBlock_0.gate.bias"; }

/// One step of these microbatches of `rows` rows, whose optimizer changes nothing.
runtime::StraightStep step_of(Model& model, std::int64_t rows, double bias_rate) {
  const auto fill = rows_of(random_ids(tiny_microbatches * 24, 61, 9), rows, 12);
  return model.loop().step(model.context(), tiny_microbatches * 2 / rows, tiny_targets, fill, {.learning_rate = 0}, 0, nullptr, bias_rate);
}

/// What the definition says of these loads, in double.
std::vector<float> expected_steps(const std::vector<std::int64_t>& counts) {
  double mean = 0;
  for (const auto count : counts) mean += static_cast<double>(count) / static_cast<double>(counts.size());
  std::vector<float> steps;
  for (const auto count : counts) {
    const double below = mean - static_cast<double>(count);
    steps.push_back(std::abs(below) < 1e-9 ? 0.0F : static_cast<float>(below > 0 ? rate : -rate));
  }
  return steps;
}

TEST(RouterBias, StepsHaveTheSignOfWhatIsMissing) {
  const auto steps = [](std::vector<std::int64_t> counts) { return runtime::bias_steps(0.5, {.counts = std::move(counts)}); };
  EXPECT_EQ(steps({3, 1, 2}), (std::vector<float>{-0.5F, 0.5F, 0.0F}));
  EXPECT_EQ(steps({4, 4}), (std::vector<float>{0, 0}));
  EXPECT_EQ(steps({0, 0, 0}), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(steps({7}), (std::vector<float>{0}));
  // The mean is 7/3: no number is rounded.
  EXPECT_EQ(steps({2, 2, 3}), (std::vector<float>{0.5F, 0.5F, -0.5F}));
}

TEST(RouterBias, MovesByTheCountsOfTheWholeStep) {
  std::vector<std::vector<float>> biases;
  for (const std::int64_t rows : {2, 1, 6}) {
    LoopOptions options = tiny_loop();
    options.rows = rows;
    Model model(with_biases(), options);
    model.initialise(7);
    const auto done = step_of(model, rows, rate);
    const auto loads = runtime::expert_loads(runtime::add_observations(done.sums.observed, 1));
    ASSERT_EQ(loads.size(), 4U);
    bool uneven = false;
    for (std::int64_t layer = 0; layer < 4; ++layer) {
      const auto& load = loads[static_cast<std::size_t>(layer)];
      EXPECT_EQ(load.total(), tiny_microbatches * 24 * 2);
      const auto bias = model.parameter(bias_of(layer));
      EXPECT_EQ(bias, expected_steps(load.counts)) << layer;
      uneven = uneven || bias[0] != 0;
      biases.push_back(bias);
      // The sum that carried the step is zero again, so the next gradient begins there.
      EXPECT_EQ(largest(model.gradient(bias_of(layer))), 0);
    }
    EXPECT_TRUE(uneven);
  }
  // However the rows are divided into microbatches.
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(biases[i], biases[i + 4]) << i;
}

TEST(RouterBias, DoesNotMoveWithoutARate) {
  Model model(with_biases(), tiny_loop());
  model.initialise(7);
  step_of(model, 2, 0);
  for (std::int64_t layer = 0; layer < 4; ++layer) EXPECT_EQ(largest(model.parameter(bias_of(layer))), 0) << layer;
}

TEST(RouterBias, CutsKeepTheBits) {
  const auto run = [](LoopOptions options) {
    options.losses.balance_loss = 0.1;  // so that the optimizer moves the biases too
    Model model(with_biases(), options);
    model.initialise(7);
    for (std::int64_t update = 1; update <= 3; ++update)
      (void)model.loop().step(model.context(), tiny_microbatches, tiny_targets, tiny_batches(), {.learning_rate = 1e-2, .update = update},
                              1.0, nullptr, rate);
    return model.parameter_bits();
  };
  const auto whole = run(tiny_loop());
  for (const char* layout : {"E t*2 | t*2 H", "E | t | t*3 | H"})
    for (const char* policy : {"none", "full"}) {
      LoopOptions cut = tiny_loop();
      cut.layout = layout;
      cut.mode = runtime::BackwardMode::split;
      cut.rematerialize = policy;
      EXPECT_TRUE(run(cut) == whole) << layout << ", " << policy;
    }
}

/// DeepSeek-V3's bias has no gradient: the update by loads is all that moves it, whatever the optimizer does with the rest.
TEST(RouterBias, MovesABiasThatIsNotTrained) {
  const std::string folder = golden_folder("hf_deepseek_v3");
  const ModelConfig config = read_config_file(folder).model;
  LoopOptions options = tiny_loop();
  options.train.weight_decay = 0.1;
  Model model(config, options);
  model.load(folder);
  std::map<std::string, std::vector<float>> before;
  std::map<std::string, std::string> routers;
  for (const auto& spec : model_parameters(config)) {
    if (spec.router.empty()) continue;
    EXPECT_FALSE(spec.trained) << spec.name;
    before[spec.name] = model.parameter(spec.name);
    routers[spec.name] = spec.router;
  }
  ASSERT_FALSE(before.empty());
  const auto fill = rows_of(random_ids(tiny_microbatches * 24, static_cast<std::int64_t>(config.vocab_size), 9), 2, 12);
  const auto done =
      model.loop().step(model.context(), tiny_microbatches, tiny_targets, fill, {.learning_rate = 1e-2, .update = 1}, 1.0, nullptr, rate);
  const auto loads = runtime::expert_loads(runtime::add_observations(done.sums.observed, 1));
  for (auto& [name, bias] : before) {
    const auto load = std::ranges::find(loads, routers.at(name), &runtime::ExpertLoad::scope);
    ASSERT_NE(load, loads.end()) << name;
    const auto steps = expected_steps(load->counts);
    for (std::size_t expert = 0; expert < bias.size(); ++expert) bias[expert] += steps[expert];
    EXPECT_EQ(model.parameter(name), bias) << name;
  }
}

TEST(RouterBias, NeedsTheLoadOfItsRouter) {
  Model model(with_biases(), tiny_loop());
  model.initialise(7);
  runtime::BiasUpdate update{rate, {{.layer = 0, .scope = "layers.0", .counts = {1, 2, 3, 4, 5}}}};
  tests::expect_error([&] { runtime::update_biases(model.context(), update, model.stages().front()->shard()); }, ExitCode::internal,
                      {"decoder.layers_1.MoeBlock_0.gate.bias", "layers.1", "the 5 counts"});
}

}  // namespace
}  // namespace millrace::layers::testing
