#include "actors/planning/cost_samples.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace millrace::tests {
namespace {

using actors::CostSample;
using actors::judge_costs;
using actors::PartSamples;

constexpr std::size_t W = 2, B = 3;  // places of passes

/// A part whose passes take these times, three samples each, of a processor that did nothing else.
PartSamples part(const std::string& name, double forward, double input_gradient, double weight_gradient, double backward) {
  PartSamples samples{name, {}, std::vector<CostSample>(3, {0.5, 0.5})};
  const std::array times{forward, input_gradient, weight_gradient, backward};
  for (std::size_t pass = 0; pass < times.size(); ++pass)
    for (const double longer : {1.02, 1.0, 1.04}) samples.passes[pass].push_back({times[pass] * longer, times[pass] * longer});
  return samples;
}

std::vector<PartSamples> quiet() { return {part("embedding", 0.1, 0, 0.2, 0.2), part("layer", 2, 2, 2, 4), part("head", 3, 3, 3, 6)}; }

/// Every sample takes as many times the processor's time.
std::vector<PartSamples> busy(double times) {
  auto samples = quiet();
  for (auto& part : samples) {
    for (auto& pass : part.passes)
      for (auto& sample : pass) sample.wall *= times;
    for (auto& sample : part.updates) sample.wall *= times;
  }
  return samples;
}

void expect_part(const std::string& text, const std::string& part) { EXPECT_NE(text.find(part), std::string::npos) << text; }

TEST(CostSamples, AQuietMachineIsMeasuredOnceByMedians) {
  int measurements = 0;
  const auto costs = judge_costs([&] { return ++measurements, quiet(); });
  EXPECT_EQ(measurements, 1);
  EXPECT_EQ(costs.measurements, 1);
  EXPECT_FALSE(costs.least);
  EXPECT_EQ(costs.doubt, "");
  ASSERT_EQ(costs.parts.size(), 3U);
  EXPECT_DOUBLE_EQ(costs.parts[1].forward, 2.04);
  EXPECT_DOUBLE_EQ(costs.parts[1].backward, 4.08);
  EXPECT_DOUBLE_EQ(costs.parts[2].update, 0.5);
}

TEST(CostSamples, AMomentOfOtherWorkIsMeasuredAgainByTheLeast) {
  int measurements = 0;
  const auto costs = judge_costs([&] { return ++measurements < 3 ? busy(2.5) : quiet(); });
  EXPECT_EQ(measurements, 3);
  EXPECT_EQ(costs.measurements, 3);
  EXPECT_TRUE(costs.least);
  EXPECT_EQ(costs.doubt, "");
  EXPECT_DOUBLE_EQ(costs.parts[1].forward, 2);
}

TEST(CostSamples, ABusyMachineIsInDoubt) {
  int measurements = 0;
  const auto costs = judge_costs([&] { return ++measurements, busy(1.5); });
  EXPECT_EQ(measurements, 4);
  EXPECT_EQ(costs.measurements, 4);
  expect_part(costs.doubt, "the passes took 1.50 x the processor time of the threads that compute");
}

TEST(CostSamples, ALittleOtherWorkIsNone) {
  EXPECT_EQ(judge_costs([] { return busy(1.08); }).measurements, 1);
}

TEST(CostSamples, ABackwardThatTakesMoreThanItsHalvesIsImpossible) {
  int measurements = 0;
  const auto costs = judge_costs([&] {
    auto samples = quiet();
    if (++measurements < 2)
      for (auto& sample : samples[1].passes[B]) sample = {3.7 * sample.wall, 3.7 * sample.wall};
    return samples;
  });
  EXPECT_EQ(measurements, 2) << "one failed measurement is repeated";
  EXPECT_EQ(costs.doubt, "");
  EXPECT_DOUBLE_EQ(costs.parts[1].backward, 4);

  const auto never = judge_costs([] {
    auto samples = quiet();
    samples[2] = part("head", 3, 1, 1, 6);
    return samples;
  });
  EXPECT_EQ(never.measurements, 4);
  expect_part(never.doubt, "B of head takes 6.000 ms, I and W, which do the same work, 2.000 ms");

  const auto too_short = judge_costs([] {
    auto samples = quiet();
    samples[1] = part("layer", 2, 5, 5, 4);
    return samples;
  });
  expect_part(too_short.doubt, "B of layer takes 4.000 ms");
}

TEST(CostSamples, WhatTakesNoTimeIsNotJudged) {
  const auto costs = judge_costs([] {
    auto samples = quiet();
    samples[0] = part("embedding", 0.001, 0, 0.002, 0.015);
    for (auto& sample : samples[0].passes[W]) sample.processor = 0;
    return samples;
  });
  EXPECT_EQ(costs.measurements, 1) << costs.doubt;
}

}  // namespace
}  // namespace millrace::tests
