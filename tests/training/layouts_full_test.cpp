#include <gtest/gtest.h>

#include "tests/training/layouts.hpp"

// All combinations of numbers and layouts: takes minutes.
namespace millrace::tests {
namespace {

std::vector<LayoutCase> cases() {
  std::vector<LayoutCase> all;
  for (const std::string dtype : {"fp32", "bf16"})
    for (const bool tied : {false, true})
      for (const int threads : {1, 2})
        for (const int accumulators : {1, 2})
          for (const auto& one : layouts()) all.push_back({{dtype, tied, threads, accumulators}, one});
  return all;
}

class EveryLayout : public ::testing::TestWithParam<LayoutCase> {};

TEST_P(EveryLayout, HasTheBitsOfOneRank) { expect_the_bits_of_one_rank(GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, EveryLayout, ::testing::ValuesIn(cases()), [](const auto& one) { return name_of(one.param); });

}  // namespace
}  // namespace millrace::tests
