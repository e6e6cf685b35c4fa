#include "kernels/moments.hpp"

#include <limits>

#include "tests/kernels/fixture.hpp"

namespace millrace::kernels::testing {
namespace {

/// Every third element is 0, the others are random.
Data with_zeros(DType dtype, std::int64_t rows, std::int64_t width) {
  Data x(dtype, {rows, width}, 1);
  for (std::int64_t i = 0; i < rows * width; i += 3) x.set(i, 0);
  return x;
}

TEST(Moments, AreTheSumsForAnyThreadCount) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const auto& [rows, width] : {std::pair{1, 1}, std::pair{7, 5}, std::pair{64, 48}, std::pair{523, 33}}) {
      const Data x = with_zeros(dtype, rows, width);
      const std::int64_t elements = std::int64_t{rows} * width;
      double sum = 0, absolute = 0, squares = 0;
      for (std::int64_t i = 0; i < elements; ++i) {
        sum += x.at(i);
        absolute += std::abs(x.at(i));
        squares += x.at(i) * x.at(i);
      }
      std::vector<double> first;
      for (const int threads : {1, 2, 3}) {
        ThreadTeam team(threads);
        for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
          Data sums(DType::f64, {4}, 2);
          moments(stream_of(team, implementation), *x, *sums);
          wait();
          EXPECT_EQ(sums.at(0), static_cast<double>(elements));
          EXPECT_EQ(sums.at(1), static_cast<double>((elements + 2) / 3));
          // Each of the sums rounds once per element in f64, in whatever order.
          const double roundings = 2 * static_cast<double>(elements) * 0x1p-53;
          EXPECT_NEAR(sums.at(2), sum, roundings * absolute);
          EXPECT_NEAR(sums.at(3), squares, (roundings + 0x1p-52) * squares);
          if (implementation == Implementation::reference) continue;
          std::vector<double> found;
          for (std::int64_t i = 0; i < 4; ++i) found.push_back(sums.at(i));
          if (first.empty()) first = found;
          EXPECT_EQ(found, first) << threads << " threads";
        }
      }
    }
}

TEST(Moments, ANotANumberIsSeen) {
  ThreadTeam team(1);
  for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
    Data x(DType::f32, {3, 5}, 1), sums(DType::f64, {4});
    x.set(7, std::numeric_limits<double>::quiet_NaN());
    moments(stream_of(team, implementation), *x, *sums);
    wait();
    EXPECT_TRUE(std::isnan(sums.at(2)) && std::isnan(sums.at(3)));
  }
}

TEST(Moments, RefusesOtherShapes) {
  ThreadTeam team(1);
  Data x(DType::f32, {4, 8}), vector(DType::f32, {4}), numbers(DType::i32, {4, 8}), sums(DType::f64, {4}), three(DType::f64, {3}),
      floats(DType::f32, {4});
  constexpr int internal = static_cast<int>(ExitCode::internal);
  EXPECT_EQ(thrown([&] { moments(fast(team), *vector, *sums); }), internal);
  EXPECT_EQ(thrown([&] { moments(fast(team), *numbers, *sums); }), internal);
  EXPECT_EQ(thrown([&] { moments(fast(team), *x, *three); }), internal);
  EXPECT_EQ(thrown([&] { moments(fast(team), *x, *floats); }), internal);
}

}  // namespace
}  // namespace millrace::kernels::testing
