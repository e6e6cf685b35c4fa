#include "kernels/dropout.hpp"

#include "tests/kernels/fixture.hpp"

namespace millrace::kernels::testing {
namespace {

TEST(Dropout, ASampleHasOneMaskForAllItsTokens) {
  constexpr DropoutOptions options{.rate = 0.25F, .site = 7};
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const int threads : {1, 3}) {
      ThreadTeam team(threads);
      Data x(dtype, {40, 33}, 1), samples(DType::i32, {40}), y(dtype, {40, 33});
      for (std::int64_t t = 0; t < 40; ++t) samples.set(t, static_cast<double>(t / 13));  // tokens 0 … 12 belong to no sample
      dropout(fast(team), *x, *samples, options, *y);
      // Two roundings: of 1 / 0.75 and of the product.
      EXPECT_TRUE(lies_within(y, [&](std::int64_t i) {
        const std::int64_t t = i / 33;
        const bool kept = dropout_keeps(static_cast<std::int32_t>(t / 13), options, i % 33);
        const double exact = t < 13 ? x.at(i) : kept ? x.at(i) / 0.75 : 0;
        return tests::around(exact, t < 13 ? 0 : tests::roundings(2) * std::abs(exact));
      }));
    }
}

TEST(Dropout, DropsItsShareAndOtherFeaturesElsewhere) {
  constexpr std::int64_t features = 20000;
  std::int64_t kept = 0, alike = 0, alike_elsewhere = 0;
  for (std::int64_t i = 0; i < features; ++i) {
    const bool here = dropout_keeps(3, {.rate = 0.1F, .site = 5}, i);
    kept += here;
    alike += here == dropout_keeps(4, {.rate = 0.1F, .site = 5}, i);
    alike_elsewhere += here == dropout_keeps(3, {.rate = 0.1F, .site = 6}, i);
  }
  // Four standard deviations; two independent masks agree in 0.9² + 0.1² of their entries.
  EXPECT_NEAR(static_cast<double>(kept) / features, 0.9, 4 * std::sqrt(0.09 / features));
  EXPECT_NEAR(static_cast<double>(alike) / features, 0.82, 4 * std::sqrt(0.15 / features));
  EXPECT_NEAR(static_cast<double>(alike_elsewhere) / features, 0.82, 4 * std::sqrt(0.15 / features));
}

TEST(Dropout, RefusesARateOfOne) {
  ThreadTeam team(1);
  Data x(DType::f32, {2, 3}), samples(DType::i32, {2});
  EXPECT_EQ(thrown([&] { dropout(fast(team), *x, *samples, {.rate = 1.0F}, *x); }), static_cast<int>(ExitCode::config));
}

}  // namespace
}  // namespace millrace::kernels::testing
