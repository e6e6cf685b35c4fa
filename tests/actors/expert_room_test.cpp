#include "actors/planning/expert_room.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace millrace::actors {
namespace {

/// The fraction of trials in which an owner gets more rows than `room`: each token draws different experts, by their weights.
double sampled(std::int64_t tokens, int chosen, const std::vector<double>& weights, int owners, std::int64_t room) {
  std::mt19937 random(3);
  constexpr int trials = 500;
  int over = 0;
  const std::size_t own = weights.size() / static_cast<std::size_t>(owners);
  for (int trial = 0; trial < trials; ++trial) {
    std::vector<std::int64_t> rows(static_cast<std::size_t>(owners));
    for (std::int64_t token = 0; token < tokens; ++token) {
      std::vector<double> left = weights;
      for (int choice = 0; choice < chosen; ++choice) {
        const std::size_t expert = std::discrete_distribution<std::size_t>(left.begin(), left.end())(random);
        left[expert] = 0;
        ++rows[expert / own];
      }
    }
    over += *std::ranges::max_element(rows) > room ? 1 : 0;
  }
  return static_cast<double>(over) / trials;
}

void expect_about_as_sampled(std::int64_t tokens, int chosen, const std::vector<double>& weights, int owners, std::int64_t room) {
  const double found = overflow_probability(tokens, chosen, weights, owners, room),
               happens = sampled(tokens, chosen, weights, owners, room);
  EXPECT_GT(found, happens - 0.06) << owners << " owners with room for " << room;
  EXPECT_LT(found, 1.2 * happens + 0.06) << owners << " owners with room for " << room;
}

TEST(ExpertRoom, OverflowIsAboutAsProbableAsItHappens) {
  const std::vector<double> even(8, 0.125), skewed{0.3, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1};
  for (const std::int64_t room : {100, 103, 106, 112}) expect_about_as_sampled(100, 2, even, 2, room);
  for (const std::int64_t room : {52, 56, 60, 66}) expect_about_as_sampled(100, 2, even, 4, room);
  for (const std::int64_t room : {57, 60, 65}) expect_about_as_sampled(100, 1, skewed, 2, room);
}

TEST(ExpertRoom, WhatCannotHappenHasNoProbability) {
  const std::vector<double> even(4, 0.25);
  EXPECT_DOUBLE_EQ(overflow_probability(50, 4, even, 2, 100), 0);  // every token has every expert
  EXPECT_DOUBLE_EQ(overflow_probability(50, 4, even, 2, 99), 1);
  EXPECT_DOUBLE_EQ(overflow_probability(50, 1, {1, 0, 0, 0}, 2, 50), 0);
}

TEST(ExpertRoom, IsToldWhereRanksShareExperts) {
  PlanRequest request;
  request.model.hidden_size = 64;
  request.model.experts = 8;
  request.model.experts_per_token = 2;
  request.train.batch = 2;
  request.train.sequence = 512;
  request.train.dtype = "fp32";
  EXPECT_EQ(expert_room_text(request), "");
  request.mesh.expert = 2;
  EXPECT_EQ(expert_room_text(request),
            "experts   2 ranks share 8, each with room for 4096 rows of width 64 (1.0 MiB), which is the worst case\n");
  request.mesh.capacity = 1.25;
  const std::string even = expert_room_text(request);
  EXPECT_NE(even.find("room for 2560 rows of width 64 (0.6 MiB) of at most 4096 (1.0 MiB): experts.capacity = 1.25\n"), std::string::npos)
      << even;
  EXPECT_NE(even.find("0.0000% of exchanges need more than one round, of at most 2, if experts are chosen equally often\n"),
            std::string::npos)
      << even;
  const std::string recorded =
      expert_room_text(request, {{{"layers.0", {10, 10, 10, 10, 10, 10, 10, 10}}, {"layers.1", {40, 20, 0, 0, 0, 0, 0, 20}}},
                                 {{"layers.0", {10, 10, 10, 10, 10, 10, 10, 10}}, {"layers.1", {10, 10, 10, 10, 10, 10, 10, 10}}}});
  EXPECT_NE(recorded.find("25.0% with the choices of 2 recorded steps, and 50.0% of those of layers.1\n"), std::string::npos) << recorded;
}

}  // namespace
}  // namespace millrace::actors
