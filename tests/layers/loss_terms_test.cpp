#include <gtest/gtest.h>

#include <cmath>

#include "tests/layers/activity_family.hpp"
#include "tests/layers/model_fixture.hpp"

// A loss of two terms, one of them in every decoder layer: its value, its gradient, and the bits of both under every cut.
namespace millrace::layers::testing {
namespace {

ModelConfig with_activity(bool tied = false) {
  add_to_families<ActivityFamily>();
  ModelConfig config = tiny_model(tied);
  config.family = "activity";
  return config;
}

TEST(LossTerms, TheLossIsTheWeightedSumOfItsTerms) {
  Model model(with_activity(), tiny_loop());
  model.initialise(7);
  const auto sums = model.loop().accumulate(model.context(), tiny_microbatches, tiny_targets, tiny_batches());
  const auto loss = sums.mean();
  const auto* lm = loss.find("lm_loss");
  const auto* activity = loss.find("activity_loss");
  ASSERT_TRUE(lm != nullptr && activity != nullptr);
  const double layers = static_cast<double>(model.config().layers);
  EXPECT_DOUBLE_EQ(lm->value, lm->sum / tiny_targets);
  EXPECT_NEAR(activity->value, activity_weight * activity->sum / tiny_microbatches / layers, 1e-12 * activity->value);
  EXPECT_GT(activity->value, 1e-3);
  EXPECT_NEAR(loss.total, lm->value + activity->value, 1e-12);
  EXPECT_DOUBLE_EQ(loss.main, lm->value) << "an auxiliary term is not part of an evaluation's loss";
  EXPECT_EQ(loss.shown().size(), 2U);
  const auto evaluated = model.loop().evaluate(model.context(), tiny_microbatches, tiny_batches()).mean();
  EXPECT_EQ(evaluated.total, loss.total);
}

TEST(LossTerms, GradientsAreSlopesOfTheWholeLoss) {
  auto options = tiny_loop();
  options.implementation = kernels::Implementation::reference;
  options.layout = "E t | t*2 | t H";
  Model model(with_activity(), options);
  model.initialise(3);
  (void)model.loop().accumulate(model.context(), tiny_microbatches, tiny_targets, tiny_batches());
  Model plain(tiny_model(false), options);
  plain.initialise(3);
  (void)plain.loop().accumulate(plain.context(), tiny_microbatches, tiny_targets, tiny_batches());
  for (const auto& spec : model_parameters(model.config())) {
    const auto gradient = model.gradient(spec.name);
    const auto place = model.master(spec.name);
    const std::vector<float> before(place.begin(), place.end());
    double expected = 0, without = 0;
    std::vector<double> direction;
    for (std::size_t i = 0; i < gradient.size(); ++i)
      direction.push_back((i * 7 % 3 == 0 ? 1 : -1) / std::sqrt(static_cast<double>(gradient.size())));
    for (std::size_t i = 0; i < gradient.size(); ++i) expected += static_cast<double>(gradient[i]) * direction[i];
    const auto lm_alone = plain.gradient(spec.name);
    for (std::size_t i = 0; i < gradient.size(); ++i) without += static_cast<double>(lm_alone[i]) * direction[i];
    const auto loss_at = [&](double distance) {
      for (std::size_t i = 0; i < before.size(); ++i) place[i] = before[i] + static_cast<float>(distance * direction[i]);
      model.refresh_copies();
      return model.loop().evaluate(model.context(), tiny_microbatches, tiny_batches()).mean().total;
    };
    const double step = 3e-3, slope = (loss_at(step) - loss_at(-step)) / (2 * step);
    loss_at(0);
    EXPECT_NEAR(slope, expected, 1e-2 * std::abs(expected) + 2e-4) << spec.name << ", by the language model's loss alone " << without;
  }
  EXPECT_NE(model.gradient_bits(), plain.gradient_bits());
}

TEST(LossTerms, CutsKeepTheBits) {
  for (const bool tied : {false, true}) {
    struct Outcome {
      double total = 0;
      std::vector<std::uint32_t> gradients;
      bool operator==(const Outcome&) const = default;
    };
    const auto run = [&](LoopOptions options) {
      Model model(with_activity(tied), options);
      model.initialise(7);
      const auto sums = model.loop().accumulate(model.context(), tiny_microbatches, tiny_targets, tiny_batches());
      return Outcome{sums.mean().total, model.gradient_bits()};
    };
    const Outcome whole = run(tiny_loop());
    for (const char* layout : {"E t*2 | t*2 H", "E t | t*2 | t H", "E | t | t*3 | H", "E t*4 | | H"}) {
      for (const auto mode : {runtime::BackwardMode::fused, runtime::BackwardMode::split}) {
        for (const char* policy : {"none", "full"}) {
          LoopOptions cut = tiny_loop();
          cut.layout = layout;
          cut.mode = mode;
          cut.rematerialize = policy;
          EXPECT_TRUE(run(cut) == whole) << layout << ", " << policy << ", tied " << tied;
        }
      }
    }
  }
}

}  // namespace
}  // namespace millrace::layers::testing
