#include "kernels/row_stability.hpp"

#include <gtest/gtest.h>

#include <array>

namespace millrace::kernels::testing {
namespace {

constexpr std::array threads{1, 2, 3};

TEST(RowStability, NoRowDependsOnTheOthers) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const RowStability found = row_stability({.dtype = dtype, .k = 96, .n = 48, .rows = 32, .batches = 5}, threads);
    EXPECT_GT(found.rows, 100);
    EXPECT_EQ(found.different, 0) << found.first;
  }
}

/// A product whose results have a trace of how many rows an expert got: one bit of every element where there are more than `limit`.
void unstable(const ExecutionContext&, const Tensor& a, const Tensor&, const Tensor& offsets, const Tensor& c) {
  constexpr std::int32_t limit = 30;
  const auto* const offset = offsets.as<std::int32_t>();
  for (std::int64_t expert = 0; expert + 1 < offsets.elements(); ++expert)
    for (std::int64_t row = offset[expert]; row < offset[expert + 1]; ++row)
      for (std::int64_t column = 0; column < c.shape[1]; ++column)
        c.as<float>()[row * c.shape[1] + column] =
            a.as<float>()[row * a.shape[1]] + (offset[expert + 1] - offset[expert] > limit && column == 2 ? 0.5F : 0.0F);
}

TEST(RowStability, NamesARowThatDoes) {
  const std::array one{1};
  const RowStability found = row_stability({.experts = 3, .k = 8, .n = 5, .rows = 32, .batches = 20}, one, unstable);
  EXPECT_GT(found.different, 30);
  EXPECT_LT(found.different, found.rows) << "groups of fewer rows are as they should be";
  EXPECT_NE(found.first.find("f32, 1 thread: row 0 of the "), std::string::npos) << found.first;
}

}  // namespace
}  // namespace millrace::kernels::testing
