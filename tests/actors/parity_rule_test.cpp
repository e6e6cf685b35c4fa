#include "actors/jobs/parity_rule.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/support/expect_error.hpp"
#include "tests/support/temporary_folder.hpp"

// Which distances from a reference are accepted, mainly in bf16, where they are compared with PyTorch's distances.
namespace millrace::actors {
namespace {

/// A tensor of `elements` whose reference has norm 1, at distance `norm`.
Distance at_distance(double norm, std::size_t elements = 1000) { return {norm, norm, 1, 1, elements, true}; }

const std::map<std::string, double> pytorch = {{"logits", 0.02}, {"hidden.0", 0.0}, {"grad.a", 0.04}, {"grad.b", 0.02}, {"grad.c", 0.02}};

Distances as_pytorch() {
  return {{"logits", at_distance(0.02)},
          {"hidden.0", at_distance(0)},
          {"grad.a", at_distance(0.04)},
          {"grad.b", at_distance(0.02)},
          {"grad.c", at_distance(0.02)},
          {"loss", {.largest = 0.001, .norm = 0.001, .reference_largest = 5, .reference_norm = 5, .elements = 1}}};
}

std::map<std::string, Verdict> judge(const Distances& distances, double scale = 1) {
  return PyTorchRule("bf16.json", pytorch, scale, 50).judge(distances);
}

/// Names that exceed their limits.
std::vector<std::string> beyond(const Distances& distances, double scale = 1) {
  std::vector<std::string> names;
  for (const auto& [name, verdict] : judge(distances, scale))
    if (!verdict.within()) names.push_back(name);
  return names;
}

using Names = std::vector<std::string>;

TEST(PyTorchRule, LetsPassWhatIsAsNearAsPyTorch) {
  EXPECT_EQ(beyond(as_pytorch()), Names{});
  EXPECT_DOUBLE_EQ(judge(as_pytorch()).at("logits").size, 1);
  EXPECT_DOUBLE_EQ(judge(as_pytorch()).at(ParityRule::all_gradients).size, 1);
}

TEST(PyTorchRule, HoldsEachOfItsLimits) {
  auto distances = as_pytorch();
  distances["logits"] = at_distance(0.0239);
  EXPECT_EQ(beyond(distances), Names{});
  distances["logits"] = at_distance(0.0241);
  EXPECT_EQ(beyond(distances), Names{"logits"});

  distances = as_pytorch();
  distances["grad.a"] = at_distance(0.0519);  // mean of 1.2975, 1, 1: 1.099
  EXPECT_EQ(beyond(distances), Names{});
  distances["grad.a"] = at_distance(0.0521);
  EXPECT_EQ(beyond(distances), Names{ParityRule::all_gradients});

  distances = as_pytorch();
  distances["grad.a"] = at_distance(0.0799), distances["grad.b"] = distances["grad.c"] = at_distance(0.01);
  EXPECT_EQ(beyond(distances), Names{});
  distances["grad.a"] = at_distance(0.0801);
  EXPECT_EQ(beyond(distances), Names{"grad.a"});
}

TEST(PyTorchRule, ScalesItsLimits) {
  auto distances = as_pytorch();
  distances["logits"] = at_distance(0.04);
  EXPECT_EQ(beyond(distances), Names{"logits"});
  EXPECT_EQ(beyond(distances, 2), Names{});
}

/// A distance of PyTorch's below one rounding is chance, for example if bf16 holds the values exactly.
TEST(PyTorchRule, TakesNoDenominatorBelowOneRounding) {
  auto distances = as_pytorch();
  distances["hidden.0"] = at_distance(1.9 * one_rounding);
  EXPECT_EQ(beyond(distances), Names{});
  distances["hidden.0"] = at_distance(2.1 * one_rounding);
  EXPECT_EQ(beyond(distances), Names{"hidden.0"});
}

/// A gradient that is zero except for rounding, such as a key bias's: its size cancels out of the ratio.
TEST(PyTorchRule, JudgesWhatIsNothingButRoundingByTheRatioAlone) {
  auto distances = as_pytorch();
  auto distances_of_pytorch = pytorch;
  distances_of_pytorch["grad.c"] = 5000;
  distances["grad.c"] = {1e-6, 1e-6, 1e-10, 1e-10, 1000, true};  // 10000 times its reference, twice PyTorch's
  const PyTorchRule rule("bf16.json", distances_of_pytorch, 1, 50);
  EXPECT_NEAR(rule.judge(distances).at("grad.c").size, 2, 1e-9);
}

/// In fp32 the gradient of a single number is compared with the same number of the other layers: near 0 by cancellation, its own size says
/// nothing of its terms. A tensor of several entries has its own size, and a number of another name is another one.
TEST(ToleranceRule, ComparesANumberWithThatOfTheOtherLayers) {
  const auto rule = parity_rule("/no/such/folder", "fp32", 1, 50);  // gradients: 1e-4 of the largest entry
  const auto number = [](double reference, double difference) { return Distance{difference, difference, reference, reference, 1, true}; };
  const auto limits = [&](const Distances& distances) { return rule->judge(distances); };
  const auto verdicts = limits({{"grad.layers_0.scalar", number(1, 0.99e-4)},
                                {"grad.layers_1.scalar", number(1e-8, 0.99e-4)},
                                {"grad.layers_2.scalar", number(0.5, 1.01e-4)},
                                {"grad.layers_1.other", number(1e-8, 1e-11)},
                                {"grad.layers_2.other", number(1e-8, 1e-11)},
                                {"grad.layers_0.w", {1e-5, 1e-5, 1, 1, 4, true}},
                                {"grad.layers_1.w", {1e-5, 1e-5, 1e-2, 1e-2, 4, true}}});
  EXPECT_TRUE(verdicts.at("grad.layers_0.scalar").within());
  EXPECT_TRUE(verdicts.at("grad.layers_1.scalar").within());
  EXPECT_FALSE(verdicts.at("grad.layers_2.scalar").within());
  EXPECT_FALSE(verdicts.at("grad.layers_1.other").within());
  EXPECT_TRUE(verdicts.at("grad.layers_0.w").within());
  EXPECT_FALSE(verdicts.at("grad.layers_1.w").within());
}

/// A model that amplifies rounding until PyTorch's own gradients are off by more than a quarter of their size: twice every limit.
/// One such tensor among others, like a gradient that is zero, does not change the limits.
TEST(PyTorchRule, DoublesItsLimitsWhereRoundingIsAmplified) {
  const auto rule_with = [](double a, double b, double c) {
    return PyTorchRule("bf16.json", {{"logits", 0.2}, {"grad.a", a}, {"grad.b", b}, {"grad.c", c}}, 1, 50);
  };
  const Distances distances = {
      {"logits", at_distance(0.47)}, {"grad.a", at_distance(0.9)}, {"grad.b", at_distance(0.3)}, {"grad.c", at_distance(1)}};
  const auto amplified = rule_with(0.26, 0.26, 0.9).judge(distances);
  EXPECT_DOUBLE_EQ(amplified.at("logits").limit, 2.4);
  EXPECT_DOUBLE_EQ(amplified.at("grad.a").limit, 4);
  EXPECT_DOUBLE_EQ(amplified.at(ParityRule::all_gradients).limit, 2.2);
  EXPECT_TRUE(amplified.at("logits").within());
  EXPECT_FALSE(amplified.at("grad.a").few_entries);
  EXPECT_NE(rule_with(0.26, 0.26, 0.9).remark().find("at least 26 % of their size"), std::string::npos)
      << rule_with(0.26, 0.26, 0.9).remark();
  for (const auto& usual : {rule_with(0.24, 0.24, 0.9), rule_with(5000, 0.02, 0.02)}) {
    EXPECT_DOUBLE_EQ(usual.judge(distances).at("grad.a").limit, 2);
    EXPECT_EQ(usual.remark(), "");
  }
}

/// In tensors with few entries equally good results differ more; all other tensors have the limit 2, whatever their size.
TEST(PyTorchRule, AllowsForChanceInTensorsWithFewEntries) {
  EXPECT_EQ(single_tensor_limit(1000), 2);
  EXPECT_EQ(single_tensor_limit(24), 2);
  EXPECT_NEAR(single_tensor_limit(23), 2.21, 0.01);
  EXPECT_NEAR(single_tensor_limit(8), 4.08, 0.01);
  EXPECT_EQ(single_tensor_limit(1), HUGE_VAL);
  auto distances = as_pytorch();
  distances["grad.a"] = at_distance(0.04), distances["grad.b"] = at_distance(0.01), distances["grad.c"] = at_distance(0.06, 8);
  EXPECT_EQ(beyond(distances), Names{ParityRule::all_gradients});  // 3 times in one of 8 entries; the mean is 1.5
  distances["grad.c"] = at_distance(0.09, 8);
  EXPECT_EQ(beyond(distances), (Names{ParityRule::all_gradients, "grad.c"}));
}

TEST(PyTorchRule, SaysWhichLimitsAreWider) {
  auto distances = as_pytorch();
  distances["grad.b"] = at_distance(0.02, 24), distances["grad.c"] = at_distance(0.02, 8);
  const auto verdicts = judge(distances);
  EXPECT_FALSE(verdicts.at("logits").few_entries);
  EXPECT_FALSE(verdicts.at("grad.b").few_entries);
  EXPECT_TRUE(verdicts.at("grad.c").few_entries);
  EXPECT_EQ(verdicts.at("grad.b").text, "1.00 times PyTorch's bf16, at most 2.00");
  EXPECT_EQ(verdicts.at("grad.c").text, "1.00 times PyTorch's bf16, at most 4.08 for 8 entries");
}

/// The loss moves no further than logits at their limit can move it: √(2/50) · 1.2 · 0.02 · 1.
TEST(PyTorchRule, BoundsTheLossByTheLogits) {
  auto distances = as_pytorch();
  distances["loss"].largest = 0.0047;
  EXPECT_EQ(beyond(distances), Names{});
  distances["loss"].largest = 0.0049;
  EXPECT_EQ(beyond(distances), Names{"loss"});
}

TEST(PyTorchRule, NeverPassesWhatIsMissingOrNoNumber) {
  auto distances = as_pytorch();
  const std::vector<float> expected = {1, 2, 3};
  distances["grad.a"] = distance_between({}, expected);
  distances["grad.b"] = distance_between(std::vector<float>{1, NAN, 3}, expected);
  EXPECT_EQ(beyond(distances), (Names{"grad.a", "grad.b"}));
  EXPECT_EQ(beyond(distances, 1e9), (Names{"grad.a", "grad.b"}));
}

TEST(PyTorchRule, RefusesATensorThatItsFileLacks) {
  auto distances = as_pytorch();
  distances["grad.d"] = at_distance(0.01);
  tests::expect_error([&] { static_cast<void>(judge(distances)); }, ExitCode::model, {"bf16.json: has no grad.d"});
}

TEST(DistanceBetween, MeasuresNormAndLargestEntry) {
  const Distance distance = distance_between(std::vector<float>{1, 2, 7}, std::vector<float>{1, 5, 3});
  EXPECT_DOUBLE_EQ(distance.largest, 4);
  EXPECT_DOUBLE_EQ(distance.norm, 5);
  EXPECT_DOUBLE_EQ(distance.reference_largest, 5);
  EXPECT_DOUBLE_EQ(distance.reference_norm, std::sqrt(35));
  EXPECT_TRUE(distance.comparable);
}

TEST(ParityRule, FollowsFromTheFoldersFiles) {
  const tests::TemporaryFolder folder;
  const std::string path = folder.path().string();
  const Distances distances = {{"logits", at_distance(0.5)}};
  const auto without = parity_rule(path, "bf16", 1, 10);
  EXPECT_FALSE(without->decides());
  EXPECT_TRUE(without->judge(distances).at("logits").within());
  EXPECT_FALSE(without->judge({{"logits", distance_between({}, std::vector<float>{1})}}).at("logits").within());

  folder.write("bf16.json", R"({"loss": 0.1, "logits": {"largest": 0.1, "norm": 0.5}})");
  const auto beside = parity_rule(path, "bf16", 1, 10);
  EXPECT_TRUE(beside->decides());
  EXPECT_DOUBLE_EQ(beside->judge(distances).at("logits").size, 1);

  EXPECT_FALSE(parity_rule(path, "fp32", 1, 10)->judge(distances).at("logits").within());
  folder.write("tolerance.json", R"({"loss": 1, "logits": 0.6, "hidden": 1, "grad": 1})");
  EXPECT_TRUE(parity_rule(path, "fp32", 1, 10)->judge(distances).at("logits").within());

  folder.write("bf16.json", R"({"logits": 0.1})");
  EXPECT_THROW(static_cast<void>(parity_rule(path, "bf16", 1, 10)), Error);
}

}  // namespace
}  // namespace millrace::actors
