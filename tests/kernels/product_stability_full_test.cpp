#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "kernels/base/cpu_features.hpp"
#include "kernels/matmul.hpp"
#include "kernels/packing.hpp"
#include "tests/kernels/fixture.hpp"

// 10,000 random products for each dtype: the bits of a row depend on the row and the other operand, and on nothing else.
namespace millrace::kernels::testing {
namespace {

/// A product, and the same rows and columns of a larger one.
struct Sizes {
  std::int64_t m, n, k;                     // of the larger one
  std::int64_t row, rows, column, columns;  // of the part
};

std::int64_t below(std::mt19937& random, std::int64_t limit) {
  return static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(limit));
}

Sizes random_sizes(std::mt19937& random) {
  Sizes sizes{.m = 1 + below(random, 150),
              .n = 1 + below(random, 150),
              .k = 1 + below(random, random() % 8 == 0 ? 1500 : 200),
              .row = 0,
              .rows = 0,
              .column = 0,
              .columns = 0};
  sizes.row = below(random, sizes.m);
  sizes.rows = 1 + below(random, sizes.m - sizes.row);
  sizes.column = below(random, sizes.n);
  sizes.columns = 1 + below(random, sizes.n - sizes.column);
  return sizes;
}

/// Rows [row, row + rows) of columns [column, column + columns) as a matrix of their own.
Data part_of(const Data& matrix, std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) {
  const Data part((*matrix).dtype, {rows, columns});
  const std::size_t size = size_of((*matrix).dtype);
  const std::int64_t width = (*matrix).shape[1];
  for (std::int64_t i = 0; i < rows; ++i)
    std::memcpy((*part).data + static_cast<std::size_t>(i * columns) * size,
                (*matrix).data + static_cast<std::size_t>((row + i) * width + column) * size, static_cast<std::size_t>(columns) * size);
  return part;
}

Data product(const Data& a, const Data& b, DType result, MatmulOptions options, int threads) {
  ThreadTeam team(threads);
  const ExecutionContext context(team);
  Data c(result, {(*a).shape[options.transpose_a ? 1 : 0], (*b).shape[1]});
  const Buffer scratch(matmul_scratch_bytes((*a).shape, (*b).shape, (*a).dtype, result, options, context.processor()));
  const Buffer packed(packed_bytes((*b).shape, false, (*b).dtype));
  Tensor right = *b;
  if (options.packed_b) {
    pack(context, *b, false, packed.data());
    right.data = packed.data();
  }
  matmul(context, *a, right, *c, options, scratch.bytes());
  return c;
}

class ProductStability : public ::testing::TestWithParam<DType> {};

TEST_P(ProductStability, NoRowOfTenThousandProductsDependsOnItsPlace) {
  std::mt19937 random(7);
  std::int64_t rows = 0, different = 0;
  for (int round = 0; round < 10'000; ++round) {
    Sizes at = random_sizes(random);
    const MatmulOptions options{.transpose_a = random() % 2 == 0, .packed_b = random() % 2 == 0};
    const DType result = GetParam() == DType::bf16 && random() % 2 == 0 ? DType::bf16 : DType::f32;
    const Data a(GetParam(), options.transpose_a ? Shape{at.k, at.m} : Shape{at.m, at.k}, static_cast<std::uint64_t>(round) + 1);
    const Data b(GetParam(), {at.k, at.n}, static_cast<std::uint64_t>(round) + 100'001);
    const Data whole = product(a, b, result, options, 1 + static_cast<int>(random() % 3));
    const Data rows_of_a = options.transpose_a ? part_of(a, 0, at.k, at.row, at.rows) : part_of(a, at.row, at.rows, 0, at.k);
    const Data alone = product(rows_of_a, part_of(b, 0, at.k, at.column, at.columns), result, options, 1 + static_cast<int>(random() % 3));
    const Data expected = part_of(whole, at.row, at.rows, at.column, at.columns);
    const std::size_t bytes = static_cast<std::size_t>(at.columns) * size_of(result);
    for (std::int64_t i = 0; i < at.rows; ++i, ++rows)
      if (std::memcmp((*alone).data + static_cast<std::size_t>(i) * bytes, (*expected).data + static_cast<std::size_t>(i) * bytes, bytes) !=
          0) {
        ++different;
        ADD_FAILURE() << "row " << at.row + i << " of " << at.m << " x " << at.n << " x " << at.k;
        if (different > 5) return;
      }
  }
  EXPECT_GT(rows, 150'000);
  EXPECT_EQ(different, 0);
}

INSTANTIATE_TEST_SUITE_P(Of, ProductStability, ::testing::Values(DType::f32, DType::bf16),
                         [](const auto& one) { return std::string(to_string(one.param)); });

}  // namespace
}  // namespace millrace::kernels::testing
