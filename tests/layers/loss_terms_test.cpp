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

/// Two of three layers have experts.
ModelConfig with_experts() {
  ModelConfig config = tiny_model(false);
  config.family = "qwen3_moe";
  config.experts = 5;
  config.experts_per_token = 2;
  config.moe_intermediate_size = 12;
  config.mlp_kinds.assign(static_cast<std::size_t>(config.layers), MlpKind::sparse);
  config.mlp_kinds.front() = MlpKind::dense;
  return config;
}

/// The least balance loss is that of an even load: K.
TEST(RouterLosses, AreMeansOverTheLayersWithExperts) {
  auto options = tiny_loop();
  options.losses = {.balance_loss = 0.5, .router_z_loss = 0.25};
  Model model(with_experts(), options);
  model.initialise(7);
  const auto loss = model.loop().accumulate(model.context(), tiny_microbatches, tiny_targets, tiny_batches()).mean();
  const auto *lm = loss.find("lm_loss"), *balance = loss.find("moe_lb_loss"), *z = loss.find("moe_z_loss");
  ASSERT_TRUE(lm != nullptr && balance != nullptr && z != nullptr);
  EXPECT_GE(balance->value, 0.5 * 2 * 0.999);
  EXPECT_LE(balance->value, 0.5 * 2 * 1.5) << "initial routers are nearly even";
  // Logits near 0: log(Σ eᵘ) is near log 5.
  EXPECT_NEAR(z->value, 0.25 * std::log(5.0) * std::log(5.0), 0.2);
  EXPECT_NEAR(loss.total, lm->value + balance->value + z->value, 1e-9);
  EXPECT_DOUBLE_EQ(loss.main, lm->value);

  Model plain(with_experts(), tiny_loop());
  plain.initialise(7);
  const auto without = plain.loop().accumulate(plain.context(), tiny_microbatches, tiny_targets, tiny_batches()).mean();
  EXPECT_EQ(without.terms.size(), 1U);
  EXPECT_EQ(without.find("lm_loss")->sum, lm->sum);
}

}  // namespace
}  // namespace millrace::layers::testing
