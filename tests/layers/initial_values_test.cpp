#include "layers/initial_values.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace millrace::layers {
namespace {

TEST(Philox, GivesThePublishedWords) {
  // Known answers of the Random123 library.
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (std::array<std::uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(StandardNormal, IsTheQuantileFunction) {
  // Quantiles at (word + 1/2) / 2^32 from an independent implementation.
  const std::array<std::pair<std::uint32_t, double>, 9> table = {{{0x0, -6.337957754553789},
                                                                  {0x1, -6.166429517819749},
                                                                  {0x3039, -4.535422762090429},
                                                                  {0x6666666, -1.9599639841416792},
                                                                  {0x12345678, -1.4675657314922321},
                                                                  {0x80000000, 2.9180993729166234e-10},
                                                                  {0xc0000000, 0.6744897505624251},
                                                                  {0xf0000000, 1.5341205452991358},
                                                                  {0xffffffff, 6.337957754553789}}};
  for (const auto& [word, value] : table) EXPECT_NEAR(standard_normal(word), value, 1e-14 * (1 + std::abs(value))) << word;
  for (std::uint32_t word : {3U, 77777U, 0x12345678U, 0x7fffffffU}) EXPECT_EQ(standard_normal(word), -standard_normal(~word));
}

ParameterSpec spec(const char* name, kernels::Shape shape, InitialKind kind = InitialKind::normal) {
  return {name, shape, -1, 0, {kind}, {shape}, 0};
}

TEST(InitialValues, AreNormalWithTheDeviation) {
  const auto matrix = spec("model.layers.0.mlp.up_proj.weight", {512, 512});
  std::vector<float> values(512 * 512);
  initial_values(matrix, 0.02, 1, 0, values);
  double mean = 0, square = 0, fourth = 0;
  for (const double value : values) {
    mean += value;
    square += value * value;
    fourth += value * value * value * value;
  }
  const auto n = static_cast<double>(values.size());
  EXPECT_NEAR(mean / n, 0, 5 * 0.02 / std::sqrt(n));
  EXPECT_NEAR(std::sqrt(square / n), 0.02, 5 * 0.02 / std::sqrt(2 * n));
  EXPECT_NEAR(fourth / n / std::pow(square / n, 2), 3.0, 5 * std::sqrt(96 / n));  // kurtosis of a normal: 3 ± √(24/n)·2
}

TEST(InitialValues, DependOnSeedNameAndElementAlone) {
  const auto matrix = spec("a", {64, 33});
  std::vector<float> whole(64 * 33), part(100), other(64 * 33);
  initial_values(matrix, 0.5, 42, 0, whole);
  for (const std::int64_t first : {0, 1, 2, 3, 37, 2000}) {
    initial_values(matrix, 0.5, 42, first, part);
    for (std::size_t i = 0; i < part.size(); ++i) ASSERT_EQ(part[i], whole[static_cast<std::size_t>(first) + i]) << first << " " << i;
  }
  const auto equal = [&] {
    std::size_t same = 0;
    for (std::size_t i = 0; i < whole.size(); ++i) same += whole[i] == other[i] ? 1 : 0;
    return same;
  };
  initial_values(matrix, 0.5, 43, 0, other);
  EXPECT_LT(equal(), 5U);
  initial_values(spec("b", {64, 33}), 0.5, 42, 0, other);
  EXPECT_LT(equal(), 5U);
}

TEST(InitialValues, NormsAreOnes) {
  std::vector<float> values(7, 5.0F);
  initial_values(spec("norm", {7}, InitialKind::ones), 0.5, 1, 0, values);
  EXPECT_EQ(values, std::vector<float>(7, 1.0F));
  initial_values(spec("bias", {7}, InitialKind::zeros), 0.5, 1, 0, values);
  EXPECT_EQ(values, std::vector<float>(7, 0.0F));
  ParameterSpec constant = spec("act_fn.weight", {7}, InitialKind::constant);
  constant.initial.value = 0.25F;
  initial_values(constant, 0.5, 1, 0, values);
  EXPECT_EQ(values, std::vector<float>(7, 0.25F));
}

/// 4000 numbers are drawn evenly from the bounds: as many lie below each tenth as there should, within 4 standard deviations,
/// √(n·p·(1 − p)).
TEST(InitialValues, LogarithmsOfEvenNumbers) {
  ParameterSpec decay = spec("A_log", {4000}, InitialKind::log_uniform);
  decay.initial.least = 0.01;
  decay.initial.most = 16;
  std::vector<float> values(4000);
  initial_values(decay, 0.5, 7, 0, values);
  for (int tenth = 0; tenth <= 10; ++tenth) {
    const double bound = std::log(0.01 + 15.99 * tenth / 10), p = tenth / 10.0;
    const auto below = static_cast<double>(std::ranges::count_if(values, [&](float value) { return value <= bound + 1e-6; }));
    EXPECT_NEAR(below, 4000 * p, 4 * std::sqrt(4000 * p * (1 - p))) << bound;
  }
}

TEST(InitialValues, OfSomeExpertsAreThoseInTheWhole) {
  auto whole = spec("experts", {6, 3, 7});
  whole.experts = {0, 6};
  std::vector<float> all(6 * 21), some(2 * 21), tail(5);
  initial_values(whole, 0.5, 42, 0, all);
  const auto slice = slice_of(whole, 3, 2);
  initial_values(slice, 0.5, 42, 0, some);
  EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin() + 3 * 21));
  initial_values(slice, 0.5, 42, 37, tail);  // from an element on, as threads ask for them
  EXPECT_TRUE(std::equal(tail.begin(), tail.end(), some.begin() + 37));
}

}  // namespace
}  // namespace millrace::layers
