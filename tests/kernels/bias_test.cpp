#include "kernels/bias.hpp"

#include "tests/kernels/fixture.hpp"

namespace millrace::kernels::testing {
namespace {

using tests::around;
using tests::fp32_roundoff;
using tests::roundings;

struct BiasResults {
  BiasResults(const ExecutionContext& context, DType dtype, std::int64_t rows, std::int64_t width)
      : x(dtype, {rows, width}, 1), b(DType::f32, {width}, 2), y(dtype, {rows, width}), db(DType::f32, {width}, 3) {
    bias_forward(context, *x, *b, *y);
    bias_weight_gradient(context, *x, *db);
  }
  Data x, b, y, db;
};

TEST(Bias, MatchesReferenceForAnyThreadCount) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::int64_t rows : {1, 5, 131})
      for (const std::int64_t width : {1, 8, 33, 300, 515}) {
        SCOPED_TRACE(::testing::Message() << rows << " x " << width << " " << to_string(dtype));
        ThreadTeam one(1);
        const BiasResults wanted(ExecutionContext(one, Implementation::reference), dtype, rows, width);
        const BiasResults found(fast(one), dtype, rows, width);
        EXPECT_TRUE(same_bits(found.y, wanted.y));
        const Data start(DType::f32, {width}, 3);  // previous value of db
        for (const BiasResults* results : {&wanted, &found}) {
          // A sum of fp32 before it is stored.
          EXPECT_TRUE(lies_within(results->y, [&](std::int64_t i) {
            const double sum = results->x.at(i) + results->b.at(i % width);
            return around(sum, fp32_roundoff * std::abs(sum));
          }));
          EXPECT_TRUE(lies_within(results->db, [&](std::int64_t n) {
            double sum = start.at(n), size = std::abs(sum);
            for (std::int64_t t = 0; t < rows; ++t) sum += results->x.at(t * width + n), size += std::abs(results->x.at(t * width + n));
            return around(sum, roundings(static_cast<double>(rows)) * size);
          }));
        }
        for (const int threads : {2, 3}) {
          ThreadTeam team(threads);
          const BiasResults many(fast(team), dtype, rows, width);
          EXPECT_TRUE(same_bits(found.y, many.y));
          EXPECT_TRUE(same_bits(found.db, many.db));
        }
      }
}

TEST(Bias, AddsToWhatTheAccumulatorHolds) {
  ThreadTeam team(1);
  Data dy(DType::f32, {2, 3}), db(DType::f32, {3});
  for (std::int64_t i = 0; i < 6; ++i) dy.set(i, static_cast<double>(i));
  db.set(1, 100);
  bias_weight_gradient(fast(team), *dy, *db);
  EXPECT_EQ(db.get(0), 3);
  EXPECT_EQ(db.get(1), 105);
  EXPECT_EQ(db.get(2), 7);
}

TEST(Bias, RefusesOtherShapes) {
  ThreadTeam team(1);
  Data x(DType::f32, {4, 8}), b(DType::f32, {9}), half(DType::bf16, {8});
  EXPECT_EQ(thrown([&] { bias_forward(fast(team), *x, *b, *x); }), static_cast<int>(ExitCode::internal));
  EXPECT_EQ(thrown([&] { bias_weight_gradient(fast(team), *x, *half); }), static_cast<int>(ExitCode::internal));
}

}  // namespace
}  // namespace millrace::kernels::testing
