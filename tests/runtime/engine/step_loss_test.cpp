#include "runtime/engine/step_loss.hpp"

#include <gtest/gtest.h>

#include "runtime/engine/load_balance.hpp"
#include "runtime/program/observation.hpp"

namespace millrace::runtime {
namespace {

const LossTerm main_term{.name = "lm_loss"};
const LossTerm balance{.name = "moe_lb_loss", .weight = 0.5, .denominator = Denominator::microbatches, .divisor = 3, .auxiliary = true};

// spec/training.md 1.4: the mean over the rows of each of G steps, added, with the gradient divided by the valid targets.
TEST(AccumulationSteps, DivideTheGradientOfAuxiliaryTermsByTheTargets) {
  const StepCounts once{40, 8}, twice{40, 8, 2};
  EXPECT_EQ(main_term.gradient_scale(twice), main_term.gradient_scale(once));
  EXPECT_FLOAT_EQ(balance.gradient_scale(once), 0.5F / 3 / 8);
  EXPECT_FLOAT_EQ(balance.gradient_scale(twice), 0.5F / 3 / 4 / 40) << "a mean over 4 microbatches, divided by 40 targets";
  EXPECT_EQ(balance.gradient_scale({0, 8, 2}), 0.0F);
  EXPECT_EQ(main_term.gradient_scale({0, 8, 2}), 0.0F);
}

TEST(AccumulationSteps, ShowTheSumOfTheirMeansAndHaveTheMeanInTheLoss) {
  const std::vector<LossTermSums> sums{{0, balance, {6, 12}}, {1, main_term, {30, 50}}};
  const StepLoss once = add_loss_terms(sums, 2, {40, 2}), twice = add_loss_terms(sums, 2, {40, 2, 2});
  EXPECT_DOUBLE_EQ(once.find("moe_lb_loss")->value, 1.5);
  EXPECT_DOUBLE_EQ(twice.find("moe_lb_loss")->value, 3.0);
  EXPECT_DOUBLE_EQ(once.total, 3.5);
  EXPECT_DOUBLE_EQ(twice.total, 3.5);
  EXPECT_DOUBLE_EQ(twice.main, 2.0);
}

// Two routers on two stages, three experts, two accumulation steps; the offsets' differences are the choices.
TEST(AccumulationSteps, EachMoveTheBiasesOfRouters) {
  const auto observed = [](int stage, const char* scope, std::vector<double> values) {
    return ObservedSums{stage, 0, std::string(expert_load_name), scope, 4, std::move(values)};
  };
  const std::vector<ObservedSums> reported{
      observed(1, "b", {0, 2, 4, 6, 0, 4, 5, 6}), observed(0, "a", {0, 1, 3, 6, 0, 3, 5, 6}), {0, 0, "activation", "a", 4, {1, 2, 3, 4}}};
  const BiasUpdate update = bias_update(0.5, reported, 2, 2);
  ASSERT_EQ(update.loads.size(), 4U);
  EXPECT_EQ(update.loads[0].scope, "a");
  EXPECT_EQ(update.loads[0].counts, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(update.loads[1].counts, (std::vector<std::int64_t>{2, 2, 2}));
  EXPECT_EQ(update.loads[2].counts, (std::vector<std::int64_t>{3, 2, 1}));
  EXPECT_EQ(update.loads[3].counts, (std::vector<std::int64_t>{4, 1, 1}));
  EXPECT_TRUE(bias_update(0, reported, 2, 2).loads.empty());
  // All observations together are those of the whole step.
  const auto loads = expert_loads(add_observations(reported, 2));
  EXPECT_EQ(loads.at(0).counts, (std::vector<std::int64_t>{4, 4, 4}));
  EXPECT_EQ(loads.at(1).counts, (std::vector<std::int64_t>{6, 3, 3}));
}

}  // namespace
}  // namespace millrace::runtime
