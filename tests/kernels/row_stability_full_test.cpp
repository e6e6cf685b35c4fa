#include "kernels/row_stability.hpp"

#include <gtest/gtest.h>

#include <array>

// 10,000 random routings for each dtype: no row of a grouped product may depend on how many rows its expert got.
namespace millrace::kernels::testing {
namespace {

constexpr std::array threads{1, 2, 3};

class RowStabilityFull : public ::testing::TestWithParam<DType> {};

TEST_P(RowStabilityFull, NoRowOfTenThousandRoutingsDependsOnTheOthers) {
  const RowStability found = row_stability({.dtype = GetParam(), .experts = 6, .k = 96, .n = 80, .batches = 10'000, .seed = 5}, threads);
  EXPECT_GT(found.rows, 3'000'000);
  EXPECT_EQ(found.different, 0) << found.first;
}

TEST_P(RowStabilityFull, NorOfOnesWithLongRows) {
  const RowStability found = row_stability({.dtype = GetParam(), .k = 1024, .n = 192, .batches = 300, .seed = 6}, threads);
  EXPECT_GT(found.rows, 60'000);
  EXPECT_EQ(found.different, 0) << found.first;
}

INSTANTIATE_TEST_SUITE_P(Of, RowStabilityFull, ::testing::Values(DType::f32, DType::bf16),
                         [](const auto& one) { return std::string(to_string(one.param)); });

}  // namespace
}  // namespace millrace::kernels::testing
