#include "layers/losses/output_loss.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "runtime/program/operations.hpp"
#include "tests/layers/model_fixture.hpp"
#include "tests/support/expect_error.hpp"

// A loss that a program adds under a name, in place of the cross-entropy of the head.
namespace millrace::layers::testing {
namespace {

using tests::expect_error;

/// Σ log(Σ exp(logits))² over the tokens: a loss of logits that exists as an operation.
runtime::ValueId squared_log_sums(runtime::ProgramBuilder& builder, const HeadOperands& head, runtime::ValueId) {
  return runtime::router_z_loss(builder, trained_logits(builder, head), "squared_log_sums");
}

LoopOptions loop_with(const std::string& loss) {
  static const bool added = (add_output_loss("squared_log_sums", squared_log_sums), true);
  static_cast<void>(added);
  auto options = tiny_loop();
  options.implementation = kernels::Implementation::reference;
  options.losses.output = loss;
  return options;
}

TEST(OutputLoss, IsTheOneOfItsName) {
  for (const bool tied : {false, true}) {
    auto options = loop_with("squared_log_sums");
    Model model(tiny_model(tied), options);
    model.initialise(7);
    const auto loss = model.loop().accumulate(model.context(), tiny_microbatches, tiny_targets, tiny_batches()).mean();
    const auto logits = model.logits([&](std::int64_t, const runtime::BatchView& batch) { tiny_batches()(0, batch); });
    const auto first = model.loop().evaluate(model.context(), 1, tiny_batches()).mean();
    double expected = 0;
    for (std::size_t t = 0; t < logits.size(); t += static_cast<std::size_t>(model.config().vocab_size)) {
      double sum = 0;
      for (std::size_t v = 0; v < static_cast<std::size_t>(model.config().vocab_size); ++v)
        sum += std::exp(static_cast<double>(logits[t + v]));
      expected += std::pow(std::log(sum), 2);
    }
    EXPECT_NEAR(first.find("lm_loss")->sum, expected, 1e-5 * expected);
    EXPECT_GT(loss.total, 1);

    // The gradient of the whole model along itself is its squared length.
    double squares = 0;
    for (const auto& spec : model_parameters(model.config()))
      for (const float element : model.gradient(spec.name)) squares += std::pow(static_cast<double>(element), 2);
    const double step = 1e-3 / std::sqrt(squares);
    const auto loss_at = [&](double distance) {
      for (const auto& spec : model_parameters(model.config())) {
        const auto gradient = model.gradient(spec.name);
        const auto place = model.master(spec.name);
        for (std::size_t i = 0; i < gradient.size(); ++i) place[i] += static_cast<float>(distance) * gradient[i];
      }
      model.refresh_copies();
      return model.loop().evaluate(model.context(), tiny_microbatches, tiny_batches()).mean().find("lm_loss")->sum / tiny_targets;
    };
    const double above = loss_at(step), below = loss_at(-2 * step);
    EXPECT_NEAR((above - below) / (2 * step), squares, 1e-2 * squares);
  }
}

TEST(OutputLoss, CutsKeepTheBits) {
  const auto gradients = [](const std::string& layout) {
    auto options = loop_with("squared_log_sums");
    options.layout = layout;
    Model model(tiny_model(false), options);
    model.initialise(7);
    (void)model.loop().accumulate(model.context(), tiny_microbatches, tiny_targets, tiny_batches());
    return model.gradient_bits();
  };
  EXPECT_EQ(gradients(""), gradients("E t | t*2 | t H"));
}

TEST(OutputLoss, NamesThatAreUnknownOrTakenAreRefused) {
  expect_error([] { Model(tiny_model(false), loop_with("squared_log_sum")); }, ExitCode::config,
               {"train.loss = squared_log_sum, expected cross_entropy, squared_log_sums", "did you mean squared_log_sums?"});
  expect_error([] { add_output_loss("cross_entropy", cross_entropy); }, ExitCode::config, {"a loss cross_entropy is added twice"});
}

TEST(OutputLoss, PlainLogitsHaveNoFurtherSteps) {
  auto options = loop_with("squared_log_sums");
  options.losses.z_loss = 1e-4;
  expect_error([&] { Model(tiny_model(false), options); }, ExitCode::model, {"train.z_loss = 0.0001, expected train.loss = cross_entropy"});
}

}  // namespace
}  // namespace millrace::layers::testing
