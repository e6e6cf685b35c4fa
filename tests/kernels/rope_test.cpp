#include "kernels/rope.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/base/cpu_features.hpp"
#include "kernels/cpu/rope_loops.hpp"
#include "tests/kernels/fixture.hpp"

namespace millrace::kernels::testing {
namespace {

using tests::around;
using tests::fp32_roundoff;
using tests::Interval;
using tests::roundings;

struct RopeOperands {
  RopeOperands(DType dtype, std::int64_t tokens, std::int64_t heads, std::int64_t width, std::int64_t unrotated = 0)
      : x(dtype, {tokens, heads, width}, 31), positions(DType::i32, {tokens}), frequencies(DType::f32, {(width - unrotated) / 2}) {
    for (std::int64_t t = 0; t < tokens; ++t) positions.set(t, static_cast<double>(t * 37 % 4001));
    for (std::int64_t i = 0; i < (width - unrotated) / 2; ++i)
      frequencies.set(i, std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(width)));
  }
  Data x, positions, frequencies;
};

/// A cosine or sine of an fp32 angle, with an error of two units in the last place (a GPU's; half a unit on a CPU), times the
/// factor, rounded to x's dtype.
Interval rounded_sine(double sine, double factor, DType dtype) {
  return stored_as(dtype, around(sine * factor, 6 * fp32_roundoff * std::abs(sine * factor)));
}

void expect_turned(const RopeOperands& in, RopeOptions options, const Data& y) {
  const std::int64_t heads = (*in.x).shape[1], width = (*in.x).shape[2], half = (width - options.unrotated) / 2;
  const DType dtype = (*in.x).dtype;
  EXPECT_TRUE(lies_within(y, [&](std::int64_t i) {
    const std::int64_t token = i / (heads * width), d = i % width - (options.rotate_last ? options.unrotated : 0);
    if (d < 0 || d >= 2 * half) return Interval{in.x.at(i), in.x.at(i)};
    const std::int64_t pair = options.interleaved ? d / 2 : d % half;
    const bool second = options.interleaved ? d % 2 == 1 : d >= half;
    const std::int64_t other = i + (second ? -1 : 1) * (options.interleaved ? 1 : half);
    const double angle = static_cast<float>(in.positions.at(token)) * static_cast<float>(in.frequencies.at(pair));
    const Interval cosine = rounded_sine(std::cos(angle), options.factor, dtype),
                   sine = rounded_sine(std::sin(angle), options.factor, dtype);
    const double by_sine = in.x.at(other) * options.direction * (second ? 1 : -1);
    // Two products and a sum.
    const double size = std::abs(in.x.at(i) * cosine.high) + std::abs(by_sine * sine.high);
    return widened(cosine * in.x.at(i) + sine * by_sine, roundings(3) * size);
  }));
}

TEST(Rope, MatchesReferenceForAnyThreadCount) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const auto& [width, unrotated] : {std::pair{2, 0},
                                           {8, 0},
                                           {30, 0},
                                           {40, 0},
                                           {64, 0},
                                           {128, 0},
                                           {260, 0},
                                           {8, 6},
                                           {7, 3},
                                           {40, 8},
                                           {64, 48},
                                           {96, 1 + 31},
                                           {260, 2},
                                           {6, 6}})
      for (RopeOptions options :
           {RopeOptions{1}, RopeOptions{-1}, RopeOptions{1, 1.3F}, RopeOptions{1, 1.0F, true}, RopeOptions{-1, 1.3F, true},
            RopeOptions{1, 1.3F, false, 0, true}, RopeOptions{-1, 1.3F, true, 0, true}}) {
        options.unrotated = unrotated;
        SCOPED_TRACE(::testing::Message() << width << " less " << unrotated << " " << to_string(dtype) << " " << options.direction << " "
                                          << options.factor << " " << options.interleaved << " " << options.rotate_last);
        const RopeOperands in(dtype, 29, 3, width, unrotated);
        ThreadTeam one(1);
        Data expected(dtype, (*in.x).shape), found(dtype, (*in.x).shape);
        rope(ExecutionContext(one, Implementation::reference), *in.x, *in.positions, *in.frequencies, options, *expected);
        rope(fast(one), *in.x, *in.positions, *in.frequencies, options, *found);
        for (const Data* y : {&expected, &found}) expect_turned(in, options, *y);
        for (const int threads : {2, 3}) {
          ThreadTeam team(threads);
          Data many(in.x);  // in place
          rope(fast(team), *many, *in.positions, *in.frequencies, options, *many);
          EXPECT_TRUE(same_bits(found, many));
        }
      }
}

TEST(Rope, TurnsHalvesAgainstEachOther) {
  ThreadTeam team(1);
  Data x(DType::f32, {1, 1, 4}), positions(DType::i32, {1}), frequencies(DType::f32, {2}), y(DType::f32, {1, 1, 4});
  x.set(0, 1);
  x.set(3, 2);
  positions.set(0, 3);
  frequencies.set(0, 0.5);
  frequencies.set(1, 0.25);
  rope(fast(team), *x, *positions, *frequencies, {}, *y);
  EXPECT_NEAR(y.get(0), std::cos(1.5), 1e-6);
  EXPECT_NEAR(y.get(2), std::sin(1.5), 1e-6);
  EXPECT_NEAR(y.get(1), -2 * std::sin(0.75), 1e-6);
  EXPECT_NEAR(y.get(3), 2 * std::cos(0.75), 1e-6);
}

TEST(Rope, TurnsNeighboursAgainstEachOther) {
  ThreadTeam team(1);
  Data x(DType::f32, {1, 1, 4}), positions(DType::i32, {1}), frequencies(DType::f32, {2}), y(DType::f32, {1, 1, 4});
  x.set(0, 1);
  x.set(3, 2);
  positions.set(0, 3);
  frequencies.set(0, 0.5);
  frequencies.set(1, 0.25);
  rope(fast(team), *x, *positions, *frequencies, {1, 10.0F, true}, *y);
  EXPECT_NEAR(y.get(0), 10 * std::cos(1.5), 1e-5);
  EXPECT_NEAR(y.get(1), 10 * std::sin(1.5), 1e-5);
  EXPECT_NEAR(y.get(2), -20 * std::sin(0.75), 1e-5);
  EXPECT_NEAR(y.get(3), 20 * std::cos(0.75), 1e-5);
}

// Rotates the pair (1, 0): the results are the cosine and the sine themselves, at 4096 positions and eight frequencies.
struct Turned {
  static constexpr std::int64_t kPositions = 4096, kHalf = 8;
  Turned(float highest_frequency, std::uint32_t seed)
      : x(DType::f32, {kPositions, 1, 2 * kHalf}), positions(DType::i32, {kPositions}), frequencies(DType::f32, {kHalf}) {
    for (std::int64_t t = 0; t < kPositions; ++t) {
      for (std::int64_t i = 0; i < kHalf; ++i) x.set(t * 2 * kHalf + i, 1);
      seed = seed * 1664525U + 1013904223U;
      // All magnitudes of numbers, of both signs, including the smallest and the largest.
      const std::int32_t position = static_cast<std::int32_t>(seed) >> (t % 31);
      positions.set(t, t < 3 ? std::array{0, 2147483647, -2147483647 - 1}[static_cast<std::size_t>(t)] : position);
    }
    for (std::int64_t i = 0; i < kHalf; ++i) frequencies.set(i, highest_frequency * std::pow(0.0073F, static_cast<float>(i) / 7.0F));
  }
  [[nodiscard]] double angle(std::int64_t t, std::int64_t i) const {
    return static_cast<float>(positions.get(t)) * static_cast<float>(frequencies.get(i));
  }
  Data x, positions, frequencies;
};

// The difference in units in the last place of the fp32 number nearest to `expected`.
double units_between(double found, double expected) {
  const auto nearest = std::abs(static_cast<float>(expected));
  return std::abs(found - expected) / (static_cast<double>(std::nextafter(nearest, 2.0F)) - static_cast<double>(nearest));
}

TEST(Rope, SinesAreThoseOfTheAngleHoweverLarge) {
  ThreadTeam team(2);
  // The last frequency gives angles beyond kFarthestAngle, where the library's sines are used. A GPU's sincosf has an error of at
  // most two units (CUDA C++ Programming Guide, mathematical functions).
  for (const auto& [highest, bound] : {std::pair{1.0F, on_device() ? 2.0 : 0.501}, std::pair{64.0F, on_device() ? 2.0 : 1.0}}) {
    const Turned in(highest, 7);
    Data y(DType::f32, (*in.x).shape);
    rope(fast(team), *in.x, *in.positions, *in.frequencies, {}, *y);
    double worst = 0;
    for (std::int64_t t = 0; t < Turned::kPositions; ++t)
      for (std::int64_t i = 0; i < Turned::kHalf; ++i) {
        const double angle = in.angle(t, i);
        worst = std::max(worst, units_between(y.get(t * 2 * Turned::kHalf + i), std::cos(angle)));
        worst = std::max(worst, units_between(y.get(t * 2 * Turned::kHalf + Turned::kHalf + i), std::sin(angle)));
      }
    EXPECT_LE(worst, bound) << "frequencies up to " << highest;
  }
}

TEST(Rope, EveryInstructionSetGivesTheSameBits) {
  MILLRACE_CPU_ONLY();
  const Turned in(1.0F, 11);
  const auto turned = [&](auto loops) {
    Data y(DType::f32, (*in.x).shape);
    loops(cpu::Rope<float>{(*in.x).as<float>(), (*in.positions).as<std::int32_t>(), (*in.frequencies).as<float>(), (*y).as<float>(), 1,
                           2 * Turned::kHalf, Turned::kHalf, 1.0F, 1.0F, false},
          0, Turned::kPositions);
    return y;
  };
  const Data expected = turned(cpu::baseline::rope_f32);
  const Isa isa = cpu_features().isa;
  EXPECT_TRUE(isa < Isa::avx2 || same_bits(turned(cpu::avx2::rope_f32), expected));
  EXPECT_TRUE(isa < Isa::avx512 || same_bits(turned(cpu::avx512::rope_f32), expected));
}

// The rotation's inverse is its transpose, so direction −1 computes the input's gradient.
TEST(Rope, DirectionBackIsTheGradient) {
  ThreadTeam team(1);
  const RopeOperands in(DType::f32, 9, 2, 22);
  const Data dy(DType::f32, (*in.x).shape, 32);
  Data y(DType::f32, (*in.x).shape), dx(DType::f32, (*in.x).shape), back(DType::f32, (*in.x).shape);
  rope(fast(team), *in.x, *in.positions, *in.frequencies, {}, *y);
  rope(fast(team), *dy, *in.positions, *in.frequencies, {-1}, *dx);
  rope(fast(team), *y, *in.positions, *in.frequencies, {-1}, *back);
  double left = 0;
  double right = 0;
  for (std::int64_t i = 0; i < y.elements(); ++i) {
    left += y.get(i) * dy.get(i);
    right += in.x.get(i) * dx.get(i);
  }
  // Sums in double, of elements with the four roundings of two products, a sum and a sine.
  double size = 0;
  for (std::int64_t i = 0; i < y.elements(); ++i) size += std::abs(y.get(i) * dy.get(i)) + std::abs(in.x.get(i) * dx.get(i));
  EXPECT_NEAR(left, right, roundings(4) * size);
  EXPECT_TRUE(lies_within(back, [&](std::int64_t i) { return around(in.x.at(i), roundings(10) * 2); }));  // of numbers up to 2
}

// As DeepSeek has it: neighbours are pairs, and they come after the features without a position.
TEST(Rope, TurnsTheLastNeighbours) {
  ThreadTeam team(1);
  for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
    Data x(DType::f32, {1, 2, 7}), positions(DType::i32, {1}), frequencies(DType::f32, {2}), y(DType::f32, {1, 2, 7});
    for (std::int64_t i = 0; i < 14; ++i) x.set(i, static_cast<double>(i));
    positions.set(0, 3);
    frequencies.set(0, 0.5);
    frequencies.set(1, 0.25);
    const RopeOptions options{.factor = 1.5F, .interleaved = true, .unrotated = 3, .rotate_last = true};
    rope(stream_of(team, implementation), *x, *positions, *frequencies, options, *y);
    for (std::int64_t head = 0; head < 14; head += 7) {
      for (std::int64_t d = head; d < head + 3; ++d) EXPECT_EQ(y.get(d), static_cast<double>(d));
      for (std::int64_t pair = 0; pair < 2; ++pair) {
        const double angle = pair == 0 ? 1.5 : 0.75;
        const auto a = static_cast<double>(head + 3 + 2 * pair), b = a + 1;
        EXPECT_NEAR(y.get(head + 3 + 2 * pair), 1.5 * (a * std::cos(angle) - b * std::sin(angle)), 1e-5);
        EXPECT_NEAR(y.get(head + 4 + 2 * pair), 1.5 * (b * std::cos(angle) + a * std::sin(angle)), 1e-5);
      }
    }
  }
}

TEST(Rope, RefusesAnOddNumberOfRotatedFeatures) {
  ThreadTeam team(1);
  Data x(DType::f32, {2, 1, 5}), positions(DType::i32, {2}), frequencies(DType::f32, {2});
  for (const std::int64_t unrotated : {0, 2, 7, -1})
    EXPECT_EQ(thrown([&] { rope(fast(team), *x, *positions, *frequencies, {.unrotated = unrotated}, *x); }),
              static_cast<int>(ExitCode::config))
        << unrotated;
  rope(fast(team), *x, *positions, *frequencies, {.unrotated = 1}, *x);
  Data even(DType::f32, {2, 1, 4});
  EXPECT_EQ(thrown([&] { rope(fast(team), *even, *positions, *frequencies, {0}, *even); }), static_cast<int>(ExitCode::internal));
}

}  // namespace
}  // namespace millrace::kernels::testing
