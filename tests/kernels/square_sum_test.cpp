#include "kernels/square_sum.hpp"

#include <algorithm>
#include <limits>
#include <span>

#include "kernels/base/cpu_features.hpp"
#include "kernels/cpu/square_sum_loops.hpp"
#include "tests/kernels/fixture.hpp"

namespace millrace::kernels {
namespace {

using testing::Data;
using testing::fast;

double square_sum_of(const ExecutionContext& context, const Data& x) {
  const Data sum(DType::f64, {1}, 3);
  square_sum(context, *x, *sum);
  return sum.get(0);
}

// Squares of fp32 are exact in fp64, and only their additions round.
double summed(std::int64_t size) { return tests::roundings(static_cast<double>(size), 0x1p-53); }

TEST(SquareSum, EquivalentToReferenceWithOneResultForAllThreadCounts) {
  for (const std::int64_t size : {0, 1, 17, 4096, 4097, 597 * 43, 5'000'011}) {
    const Data x(DType::f32, {size}, 5);
    ThreadTeam one(1);
    const double first = square_sum_of(fast(one), x);
    const double wanted = square_sum_of(ExecutionContext(one, Implementation::reference), x);
    EXPECT_NEAR(first, wanted, summed(size) * wanted) << size;
    double plain = 0;
    for (std::int64_t i = 0; i < std::min<std::int64_t>(size, 100'000); ++i) plain += x.at(i) * x.at(i);
    if (size <= 100'000) {
      EXPECT_NEAR(wanted, plain, summed(size) * plain) << size;
    }
    for (const int threads : {2, 3}) {
      ThreadTeam team(threads);
      EXPECT_EQ(square_sum_of(fast(team), x), first) << size << " on " << threads;
    }
  }
}

TEST(SquareSum, DoesNotOverflowAndShowsWhatIsNotFinite) {
  ThreadTeam team(2);
  Data x(DType::f32, {10000}, 5);
  x.set(7001, std::numeric_limits<float>::max());
  EXPECT_TRUE(std::isfinite(square_sum_of(fast(team), x)));
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    x.set(9999, bad);
    EXPECT_FALSE(std::isfinite(square_sum_of(fast(team), x)));
  }
}

TEST(SquareSum, EveryInstructionSetGivesTheSameBits) {
  MILLRACE_CPU_ONLY();
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
  MILLRACE_CPU_ONLY();
  ThreadTeam team(2);
  const Data x(DType::f32, {100'000}, 5);
  const Data sum(DType::f64, {1});
  const auto before = testing::large_allocations();
  square_sum(fast(team), *x, *sum);
  EXPECT_GT(sum.get(0), 0.0);
  EXPECT_EQ(testing::large_allocations(), before);
}

TEST(SquareSum, OfManyTensorsAreThoseOfOneAfterTheOther) {
  std::vector<Data> all;
  all.reserve(200);
  std::vector<Tensor> tensors;
  for (std::int64_t i = 0; i < 200; ++i) {
    all.emplace_back(DType::f32, Shape{i % 50 == 0 ? 3 * 4096 * 17 + i : (i * 37) % 5000}, static_cast<std::uint64_t>(i + 1));
    tensors.push_back(*all.back());
  }
  for (const int threads : {1, 3}) {
    ThreadTeam team(threads);
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{7}, tensors.size()}) {
      const Data sums(DType::f64, {static_cast<std::int64_t>(count)}, 3), plain(DType::f64, {static_cast<std::int64_t>(count)}, 4);
      square_sums(fast(team), std::span(tensors).first(count), *sums);
      square_sums(ExecutionContext(team, Implementation::reference), std::span(tensors).first(count), *plain);
      for (std::size_t i = 0; i < count; ++i) {
        EXPECT_EQ(sums.get(static_cast<std::int64_t>(i)), square_sum_of(fast(team), all[i])) << i << " of " << count;
        EXPECT_NEAR(sums.get(static_cast<std::int64_t>(i)), plain.get(static_cast<std::int64_t>(i)),
                    summed(tensors[i].elements()) * plain.get(static_cast<std::int64_t>(i)));
      }
    }
  }
}

TEST(SquareSum, RefusesOtherTypes) {
  ThreadTeam team(1);
  const Data x(DType::bf16, {4});
  const Data y(DType::f32, {4}), sum(DType::f64, {1}), sums(DType::f64, {2}), narrow(DType::f32, {1});
  const int internal = static_cast<int>(ExitCode::internal);
  EXPECT_EQ(testing::thrown([&] { square_sum(fast(team), *x, *sum); }), internal);
  EXPECT_EQ(testing::thrown([&] { square_sum(fast(team), *y, *narrow); }), internal);
  EXPECT_EQ(testing::thrown([&] { square_sum(fast(team), *y, *sums); }), internal);
}

}  // namespace
}  // namespace millrace::kernels
