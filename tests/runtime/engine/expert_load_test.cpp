#include "runtime/engine/expert_load.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "runtime/engine/layer_activation.hpp"
#include "runtime/program/observation.hpp"

namespace millrace::runtime {
namespace {

const std::string load_name(expert_load_name), dropped_name(dropped_tokens_name), activation(activation_name);

TEST(Observations, AreAddedInModelOrderOverMicrobatchesAndReplicas) {
  // Two model stages and their second replica, reported in any order. Integers come added up, other numbers by microbatch.
  const auto sums = add_observations({{3, 1, "b", "layers.1", 2, {10, 20}},
                                      {0, 0, "a", "layers.0", 1, {1, 2}},
                                      {1, 1, "b", "layers.1", 2, {1, 2}},
                                      {2, 0, "a", "layers.0", 1, {4, 8}}},
                                     2);
  ASSERT_EQ(sums.size(), 2U);
  EXPECT_EQ(sums[0].name, "a");
  EXPECT_EQ(sums[0].values, std::vector<double>{15});
  EXPECT_EQ(sums[1].scope, "layers.1");
  EXPECT_EQ(sums[1].layer, 1);
  EXPECT_EQ(sums[1].values, (std::vector<double>{11, 22}));
}

TEST(Observations, AreAddedOneMicrobatchAfterTheOther) {
  // In this order the small numbers are lost, one at a time; added first, they would not be.
  const double one = std::ldexp(1.0, 53);
  const auto sums = add_observations({{1, 0, "a", "", 1, {1, 1}}, {0, 0, "a", "", 1, {one}}}, 1);
  EXPECT_EQ(sums.at(0).values, std::vector<double>{one});
}

TEST(ExpertLoad, CountsAreTheDifferencesOfPlaces) {
  const auto loads = expert_loads({{load_name, 2, "layers.2", {0, 5, 5, 12, 16}},
                                   {load_name, 3, "layers.3", {0, 4, 8, 12, 16}},
                                   {activation, 3, "layers.3", {1, 2, 3, 4}},
                                   {dropped_name, 3, "layers.3", {7}}});
  ASSERT_EQ(loads.size(), 2U);
  EXPECT_EQ(loads[0].layer, 2);
  EXPECT_EQ(loads[0].counts, (std::vector<std::int64_t>{5, 0, 7, 4}));
  EXPECT_EQ(loads[0].total(), 16);
  EXPECT_EQ(loads[0].dropped, 0);
  EXPECT_EQ(loads[0].hottest(), 2U);
  EXPECT_EQ(loads[0].hottest_share(), 7.0 / 16);
  const double entropy = -(5.0 / 16 * std::log(5.0 / 16) + 7.0 / 16 * std::log(7.0 / 16) + 0.25 * std::log(0.25));
  EXPECT_NEAR(loads[0].entropy(), entropy, 1e-15);
  EXPECT_NEAR(loads[0].evenness(), entropy / std::log(4.0), 1e-15);
  EXPECT_NEAR(loads[1].evenness(), 1, 1e-15);
  EXPECT_EQ(loads[1].hottest(), 0U) << "the first of equals";
  EXPECT_EQ(loads[1].dropped, 7);
}

TEST(ExpertLoad, OneExpertAndNoChoicesHaveNumbersToo) {
  const ExpertLoad one{0, "layers.0", {9}, 0}, none{0, "layers.0", {0, 0}, 0};
  EXPECT_EQ(one.evenness(), 1);
  EXPECT_EQ(one.hottest_share(), 1);
  EXPECT_EQ(none.entropy(), 0);
  EXPECT_EQ(none.hottest_share(), 0);
}

TEST(ExpertLoad, StepsAreAdded) {
  std::vector<ExpertLoad> sums;
  add_loads(sums, {{0, "layers.0", {1, 2}, 3}});
  add_loads(sums, {{0, "layers.0", {10, 20}, 30}});
  EXPECT_EQ(sums, (std::vector<ExpertLoad>{{0, "layers.0", {11, 22}, 33}}));
}

TEST(LayerActivation, IsMeanDeviationAndZeros) {
  // The elements 0, 0, 3, 5: mean 2, variance (4 + 4 + 1 + 9) / 4.
  const auto layers = layer_activations({{load_name, 0, "layers.0", {0, 1}}, {activation, 1, "layers.1", {4, 2, 8, 34}}});
  ASSERT_EQ(layers.size(), 1U);
  EXPECT_EQ(layers[0].layer, 1);
  EXPECT_EQ(layers[0].fraction_zero, 0.5);
  EXPECT_EQ(layers[0].mean, 2);
  EXPECT_NEAR(layers[0].deviation, std::sqrt(4.5), 1e-15);
}

}  // namespace
}  // namespace millrace::runtime
