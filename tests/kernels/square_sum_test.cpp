#include "kernels/square_sum.hpp"

#include <limits>

#include "kernels/base/cpu_features.hpp"
#include "kernels/cpu/square_sum_loops.hpp"
#include "tests/kernels/fixture.hpp"

namespace millrace::kernels {
namespace {

using testing::Data;

TEST(SquareSum, EquivalentToReferenceWithOneResultForAllThreadCounts) {
  for (const std::int64_t size : {0, 1, 17, 4096, 4097, 597 * 43, 5'000'011}) {
    const Data x(DType::f32, {size}, 5);
    ThreadTeam one(1);
    const double first = square_sum(Stream(one), *x);
    const double wanted = square_sum(Stream(one, Implementation::reference), *x);
    EXPECT_NEAR(first, wanted, 1e-13 * wanted) << size;
    for (const int threads : {2, 3}) {
      ThreadTeam team(threads);
      EXPECT_EQ(square_sum(Stream(team), *x), first) << size << " on " << threads;
    }
  }
}

TEST(SquareSum, DoesNotOverflowAndShowsWhatIsNotFinite) {
  ThreadTeam team(2);
  Data x(DType::f32, {10000}, 5);
  x.set(7001, std::numeric_limits<float>::max());
  EXPECT_TRUE(std::isfinite(square_sum(Stream(team), *x)));
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    x.set(9999, bad);
    EXPECT_FALSE(std::isfinite(square_sum(Stream(team), *x)));
  }
}

TEST(SquareSum, EveryInstructionSetGivesTheSameBits) {
  const Data x(DType::f32, {4001}, 9);
  const double wanted = cpu::baseline::square_sum_chunk((*x).as<float>(), 4001);
  if (cpu_features().isa >= Isa::avx2) {
    EXPECT_EQ(cpu::avx2::square_sum_chunk((*x).as<float>(), 4001), wanted);
  }
  if (cpu_features().isa >= Isa::avx512) {
    EXPECT_EQ(cpu::avx512::square_sum_chunk((*x).as<float>(), 4001), wanted);
  }
}

TEST(SquareSum, AllocatesNothingLarge) {
  ThreadTeam team(2);
  const Data x(DType::f32, {100'000}, 5);
  const auto before = testing::large_allocations();
  EXPECT_GT(square_sum(Stream(team), *x), 0.0);
  EXPECT_EQ(testing::large_allocations(), before);
}

TEST(SquareSum, RefusesOtherTypes) {
  ThreadTeam team(1);
  const Data x(DType::bf16, {4});
  EXPECT_EQ(testing::thrown([&] { (void)square_sum(Stream(team), *x); }), static_cast<int>(ExitCode::internal));
}

}  // namespace
}  // namespace millrace::kernels
