#include "kernels/elementwise.hpp"

#include <limits>

#include "kernels/base/cpu_features.hpp"
#include "kernels/cpu/elementwise_loops.hpp"
#include "tests/kernels/fixture.hpp"

namespace millrace::kernels {
namespace {

using testing::Data;
using testing::fast;
using testing::lies_within;

constexpr std::int64_t kSizes[] = {0, 1, 15, 16, 17, 597 * 43};

TEST(Elementwise, EquivalentToReference) {
  for (const int threads : {1, 2, 3}) {
    ThreadTeam team(threads);
    const ExecutionContext context = fast(team), reference(team, Implementation::reference);
    for (const std::int64_t size : kSizes)
      for (const DType dtype : {DType::f32, DType::bf16}) {
        const Data a(dtype, {size}, 1), b(dtype, {size}, 2);
        Data y(dtype, {size}), wanted(dtype, {size});
        add(context, *a, *b, *y);
        add(reference, *a, *b, *wanted);
        EXPECT_TRUE(same_bits(y, wanted)) << size;
        // Each is one operation in fp32, whose result is stored or rounded once more.
        const auto once = [](double exact) { return tests::around(exact, tests::fp32_roundoff * std::abs(exact)); };
        EXPECT_TRUE(lies_within(y, [&](std::int64_t i) { return once(a.at(i) + b.at(i)); }));
        scale(context, *a, {1.7F}, *y);
        scale(reference, *a, {1.7F}, *wanted);
        EXPECT_TRUE(same_bits(y, wanted)) << size;
        EXPECT_TRUE(lies_within(y, [&](std::int64_t i) { return once(a.at(i) * static_cast<double>(1.7F)); }));

        Data sum(DType::f32, {size}, 3), sum_wanted(sum);
        accumulate(context, *a, *sum);
        accumulate(reference, *a, *sum_wanted);
        EXPECT_TRUE(same_bits(sum, sum_wanted)) << size;
        const Data before(DType::f32, {size}, 3);
        EXPECT_TRUE(lies_within(sum, [&](std::int64_t i) { return tests::around(before.at(i) + a.at(i), 0); }));

        for (const DType to : {DType::f32, DType::bf16}) {
          Data converted(to, {size}), converted_wanted(to, {size});
          convert(context, *a, *converted);
          convert(reference, *a, *converted_wanted);
          EXPECT_TRUE(same_bits(converted, converted_wanted)) << size;
          EXPECT_TRUE(lies_within(converted, [&](std::int64_t i) { return tests::around(a.at(i), 0); }));
        }
        fill_zero(context, *sum);
        EXPECT_TRUE(same_bits(sum, Data(DType::f32, {size})));
      }
  }
}

TEST(Elementwise, AddsInPlace) {
  ThreadTeam team(2);
  Data a(DType::f32, {1000}, 1);
  const Data before(a), b(DType::f32, {1000}, 2);
  add(fast(team), *a, *b, *a);
  for (std::int64_t i = 0; i < 1000; ++i)
    EXPECT_EQ(a.get(i), static_cast<double>(static_cast<float>(before.get(i)) + static_cast<float>(b.get(i))));
}

TEST(Elementwise, RoundsEveryKindOfNumberAsOneDoes) {
  ThreadTeam team(1);
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values{0.0F,
                                  -0.0F,
                                  1.0F + 0x1p-8F,
                                  1.0F + 0x1p-7F + 0x1p-8F,
                                  infinity,
                                  -infinity,
                                  std::numeric_limits<float>::max(),
                                  std::numeric_limits<float>::denorm_min(),
                                  std::numeric_limits<float>::quiet_NaN(),
                                  -1.5F};
  Data x(DType::f32, {32}), y(DType::bf16, {32});
  for (std::int64_t i = 0; i < 32; ++i) x.set(i, values[static_cast<std::size_t>(i) % values.size()]);
  convert(fast(team), *x, *y);
  for (std::int64_t i = 0; i < 32; ++i) {
    if (testing::on_device() && std::isnan(x.get(i)))  // the hardware chooses which NaN
      EXPECT_TRUE(std::isnan(y.get(i)));
    else
      EXPECT_EQ((*y).as<BFloat16>()[i].bits, to_bfloat16((*x).as<float>()[i]).bits) << x.get(i);
  }
}

TEST(Elementwise, RoundsAboveBelowAndAtEveryTie) {
  MILLRACE_CPU_ONLY();
  constexpr std::uint32_t lower_halves[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
  ThreadTeam team(1);
  Data x(DType::f32, {1 << 16}), y(DType::bf16, {1 << 16});
  for (const std::uint32_t lower : lower_halves) {
    for (std::uint32_t upper = 0; upper < 1 << 16; ++upper) {
      const std::uint32_t bits = upper << 16 | lower;
      std::memcpy((*x).as<float>() + upper, &bits, sizeof bits);
    }
    convert(fast(team), *x, *y);
    for (std::int64_t i = 0; i < 1 << 16; ++i)
      ASSERT_EQ((*y).as<BFloat16>()[i].bits, to_bfloat16((*x).as<float>()[i]).bits) << i << " " << lower;
  }
}

TEST(Elementwise, EveryInstructionSetGivesTheSameBits) {
  MILLRACE_CPU_ONLY();
  const Data a(DType::bf16, {103}, 1), b(DType::bf16, {103}, 2);
  Data baseline(DType::bf16, {103}), other(DType::bf16, {103});
  cpu::baseline::add_bf16((*a).as<BFloat16>(), (*b).as<BFloat16>(), (*baseline).as<BFloat16>(), 0, 103);
  if (cpu_features().isa >= Isa::avx2) {
    cpu::avx2::add_bf16((*a).as<BFloat16>(), (*b).as<BFloat16>(), (*other).as<BFloat16>(), 0, 103);
    EXPECT_TRUE(same_bits(other, baseline));
  }
  if (cpu_features().isa >= Isa::avx512) {
    cpu::avx512::add_bf16((*a).as<BFloat16>(), (*b).as<BFloat16>(), (*other).as<BFloat16>(), 0, 103);
    EXPECT_TRUE(same_bits(other, baseline));
  }
}

TEST(Elementwise, RefusesWhatDoesNotFit) {
  ThreadTeam team(1);
  const ExecutionContext context = fast(team);
  const Data a(DType::f32, {4}), longer(DType::f32, {5}), narrow(DType::bf16, {4}), tokens(DType::i32, {4});
  const int internal = static_cast<int>(ExitCode::internal);
  EXPECT_EQ(testing::thrown([&] { add(context, *a, *longer, *a); }), internal);
  EXPECT_EQ(testing::thrown([&] { add(context, *a, *narrow, *a); }), internal);
  EXPECT_EQ(testing::thrown([&] { accumulate(context, *a, *narrow); }), internal);
  EXPECT_EQ(testing::thrown([&] { convert(context, *tokens, *a); }), internal);
}

}  // namespace
}  // namespace millrace::kernels
