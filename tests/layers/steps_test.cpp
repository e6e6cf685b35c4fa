#include <gtest/gtest.h>

#include <cmath>

#include "layers/formats/config_file.hpp"
#include "runtime/optimizers/learning_rate.hpp"
#include "tests/layers/model_fixture.hpp"

// Four AdamW steps of four microbatches compared with PyTorch's: losses, norms before clipping, learning rates and the final
// parameters.
namespace millrace::layers::testing {
namespace {

TEST(Steps, FourAdamwStepsAgreeWithPytorch) {
  const std::string folder = golden_folder("hf_llama");
  const ModelConfig config = read_config_file(folder).model;
  const runtime::SafetensorsFile golden(folder + "/steps.safetensors");
  const auto& shape = golden.at("input_ids").shape;  // [step, microbatch, rows, sequence]
  const std::int64_t steps = shape[0], microbatches = shape[1], rows = shape[2], sequence = shape[3];
  ASSERT_EQ(steps, 4);
  const auto ids = read_ids(golden, "input_ids");
  const auto losses = read_floats(golden, "loss"), norms = read_floats(golden, "grad_norm"), rates = read_floats(golden, "learning_rate");
  const runtime::LearningRate schedule{"cosine", 1e-2, 1e-3, steps, 2, 0};

  LoopOptions options;
  options.layout = "E t | t*2 H";
  options.rows = rows;
  options.sequence = sequence;
  options.train.weight_decay = 0.1;
  Model model(config, options);
  model.load(folder);

  const auto per_step = static_cast<std::ptrdiff_t>(microbatches * rows * sequence);
  bool clipped = false;
  for (std::int64_t s = 0; s < steps; ++s) {
    const auto at = static_cast<std::size_t>(s);
    const double rate = schedule.at(s);
    EXPECT_NEAR(rate, rates.at(at), 1e-9) << "step " << s;
    const auto begin = ids.begin() + s * per_step;
    const runtime::UpdateScalars scalars{.learning_rate = rate, .update = s + 1};
    const auto step = model.loop().step(model.context(), microbatches, microbatches * rows * (sequence - 1),
                                        rows_of({begin, begin + per_step}, rows, sequence), scalars, 1.0);
    EXPECT_NEAR(step.loss, losses.at(at), 2e-5) << "step " << s;
    EXPECT_NEAR(step.norm, norms.at(at), 1e-4 * norms.at(at)) << "step " << s;
    clipped = clipped || step.norm > 1.0;
  }
  EXPECT_TRUE(clipped) << "no step clips: the clipping rule would go untested";
  // An entry whose gradient is near zero takes a step of the learning rate's size in a direction that rounding decides, since
  // Adam divides by the gradient's size. So each tensor is bounded in its root mean square by a thousandth of the distance that
  // four steps may move it, and each entry by 5 % of it.
  constexpr double reach = 5e-3 + 1e-2 + 1e-2 + 5.5e-3;
  for (const auto& spec : model_parameters(config)) {
    const auto wanted = read_floats(golden, "after." + spec.name);
    const auto found = model.parameter(spec.name);
    double squares = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) squares += (found[i] - wanted[i]) * static_cast<double>(found[i] - wanted[i]);
    EXPECT_LE(std::sqrt(squares / static_cast<double>(wanted.size())), 1e-3 * reach) << spec.name;
    EXPECT_LE(largest_difference(found, wanted), 5e-2 * reach) << spec.name;
  }
}

}  // namespace
}  // namespace millrace::layers::testing
