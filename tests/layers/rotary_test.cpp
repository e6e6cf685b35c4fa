#include "layers/rotary.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tests/support/expect_error.hpp"

namespace millrace::layers {
namespace {

RopeConfig llama31() { return {RopeKind::llama3, 500000.0, 8.0, 1.0, 4.0, 8192}; }

TEST(Rotary, DefaultIsThePowerOfTheBase) {
  const auto found = inverse_frequencies({RopeKind::none, 10000.0, 1, 1, 4, 0}, 8);
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(found[0], 1.0F);
  EXPECT_EQ(found[1], 0.1F);
  EXPECT_EQ(found[2], 0.01F);
  EXPECT_EQ(found[3], 0.001F);
}

TEST(Rotary, LinearDividesByTheFactor) {
  const auto plain = inverse_frequencies({RopeKind::none, 10000.0, 1, 1, 4, 0}, 64);
  const auto scaled = inverse_frequencies({RopeKind::linear, 10000.0, 4.0, 1, 4, 0}, 64);
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(scaled[i], plain[i] / 4.0F);
}

TEST(Rotary, Llama3KeepsShortScalesLongAndRampsBetween) {
  auto rope = llama31();
  const auto scaled = inverse_frequencies(rope, 128);
  rope.kind = RopeKind::none;
  const auto plain = inverse_frequencies(rope, 128);
  int kept = 0, divided = 0, between = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const double wavelength = 2 * std::numbers::pi / plain[i];
    if (wavelength < 8192.0 / 4) {
      EXPECT_EQ(scaled[i], plain[i]);
      ++kept;
    } else if (wavelength > 8192.0) {
      EXPECT_EQ(scaled[i], plain[i] / 8.0F);
      ++divided;
    } else {
      const double smooth = (8192.0 / wavelength - 1.0) / 3.0;
      EXPECT_NEAR(scaled[i], ((1 - smooth) / 8 + smooth) * plain[i], 1e-6 * plain[i]);
      ++between;
    }
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(divided, 0);
  EXPECT_GT(between, 0);
}

TEST(Rotary, ProportionalTurnsTheFirstPairsAlone) {
  RopeConfig rope{.kind = RopeKind::proportional, .theta = 1e6};
  rope.proportion = 0.25;
  const auto plain = inverse_frequencies({.theta = 1e6}, 512), found = inverse_frequencies(rope, 512);
  ASSERT_EQ(found.size(), 256U);
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i], i < 64 ? plain[i] : 0.0F) << i;
  rope.proportion = 1.5;
  tests::expect_error([&] { (void)inverse_frequencies(rope, 8); }, ExitCode::model, {"proportion = 1.5"});
}

TEST(Rotary, DynamicStretchesTheBaseInLongRows) {
  RopeConfig rope{.kind = RopeKind::dynamic, .theta = 5000, .factor = 3, .original_max_position = 10};
  const auto plain = inverse_frequencies({.theta = 5000}, 8);
  for (const std::int64_t sequence : {0, 1, 10}) EXPECT_EQ(inverse_frequencies(rope, 8, sequence), plain) << sequence;
  const auto found = inverse_frequencies(rope, 8, 24);
  const double base = 5000 * std::pow(3 * 2.4 - 2, 8.0 / 6);
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i] * std::pow(base, static_cast<double>(i) / 4), 1, 1e-6) << i;
  rope.original_max_position = 0;
  tests::expect_error([&] { (void)inverse_frequencies(rope, 8, 24); }, ExitCode::model,
                      {"dynamic", "original_max_position_embeddings = 0"});
}

TEST(Rotary, LongropeHasAFactorPerPairForEachLength) {
  RopeConfig rope{.kind = RopeKind::longrope, .factor = 4, .original_max_position = 16};
  rope.short_factors = {1, 1.5, 2, 3};
  rope.long_factors = {1, 2, 4, 8};
  const auto plain = inverse_frequencies({}, 8), in_short = inverse_frequencies(rope, 8, 16), in_long = inverse_frequencies(rope, 8, 17);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_NEAR(in_short[i] * rope.short_factors[i], plain[i], 1e-6 * plain[i]) << i;
    EXPECT_NEAR(in_long[i] * rope.long_factors[i], plain[i], 1e-6 * plain[i]) << i;
  }
  EXPECT_FLOAT_EQ(rotary_factor(rope), static_cast<float>(std::sqrt(1.5)));  // √(1 + ln 4 / ln 16)
  rope.attention_factor = 1.25;
  EXPECT_EQ(rotary_factor(rope), 1.25F);
  rope.long_factors.pop_back();
  tests::expect_error([&] { (void)inverse_frequencies(rope, 8, 17); }, ExitCode::model, {"3 long factors", "4 factors"});
}

/// transformers' formulas over dim = int(head_dim · partial_rotary_factor) features (modeling_rope_utils.py, _compute_*_parameters), in
/// double.
TEST(Rotary, APartOfAHeadHasItsOwnFrequencies) {
  struct Part {
    std::int64_t head_dim;
    double proportion;
    std::int64_t dim;
  };
  const std::vector<double> divisors = {1, 1.5, 2, 3, 4, 5, 6, 7};
  for (const Part& part : {Part{16, 0.5, 8}, Part{10, 0.75, 7}, Part{16, 0.95, 15}, Part{16, 1.0, 16}})
    for (const RopeKind kind : {RopeKind::none, RopeKind::linear, RopeKind::dynamic, RopeKind::llama3, RopeKind::longrope}) {
      SCOPED_TRACE(::testing::Message() << to_string(kind) << " " << part.head_dim << " " << part.proportion);
      RopeConfig rope{.kind = kind, .theta = 5000, .factor = kind == RopeKind::none ? 1.0 : 3.0, .original_max_position = 10};
      rope.proportion = part.proportion;
      const auto pairs = static_cast<std::size_t>(part.dim + 1) / 2;
      rope.short_factors = rope.long_factors = {divisors.begin(), divisors.begin() + static_cast<std::ptrdiff_t>(pairs)};
      const auto found = inverse_frequencies(rope, part.head_dim, 24);
      ASSERT_EQ(found.size(), pairs);
      EXPECT_EQ(rotary_pairs(rope, part.head_dim), static_cast<std::int64_t>(pairs));
      const auto dim = static_cast<double>(part.dim);
      const double base = kind == RopeKind::dynamic ? 5000 * std::pow(3 * 2.4 - 2, dim / (dim - 2)) : 5000;
      for (std::size_t i = 0; i < found.size(); ++i) {
        const double plain = std::pow(base, -2 * static_cast<double>(i) / dim), wavelength = 2 * std::numbers::pi / plain;
        double expected = plain;
        if (kind == RopeKind::linear) expected /= 3;
        if (kind == RopeKind::longrope) expected /= divisors[i];
        if (kind == RopeKind::llama3) {
          const double smooth = (10 / wavelength - 1.0) / (4.0 - 1.0);
          expected = wavelength > 10 ? plain / 3 : wavelength < 2.5 ? plain : (1 - smooth) * plain / 3 + smooth * plain;
        }
        EXPECT_NEAR(found[i], expected, 1e-6 * expected) << i;
      }
    }
}

TEST(Rotary, YarnRampsOverThePartThatIsRotated) {
  RopeConfig rope{.kind = RopeKind::yarn, .theta = 10000, .factor = 4, .original_max_position = 64};
  rope.beta_fast = 8;
  rope.truncate = false;
  rope.proportion = 0.5;
  const double dim = 16;
  const auto found = inverse_frequencies(rope, 32);
  ASSERT_EQ(found.size(), 8U);
  const auto index = [&](double rotations) { return dim * std::log(64 / (rotations * 2 * std::numbers::pi)) / (2 * std::log(10000.0)); };
  const double low = std::max(index(8), 0.0), high = std::min(index(1), dim - 1);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double plain = std::pow(10000.0, -2 * static_cast<double>(i) / dim);
    const double kept = 1 - std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    EXPECT_NEAR(found[i], plain / 4 * (1 - kept) + plain * kept, 1e-6 * plain) << i;
  }
  rope.proportion = 0.48;  // 15 features, whose last pair the ramp does not cover
  tests::expect_error([&] { (void)inverse_frequencies(rope, 32); }, ExitCode::model, {"15 features", "even"});
  rope.proportion = 0.01;
  tests::expect_error([&] { (void)inverse_frequencies(rope, 32); }, ExitCode::model, {"proportion = 0.01", "at least one"});
}

/// Llama 4 Scout's factors: frequencies are divided or kept, and none is between.
TEST(Rotary, EqualFactorsOfLlama3HaveNothingBetween) {
  RopeConfig rope{
      .kind = RopeKind::llama3, .theta = 5e5, .factor = 16, .low_freq_factor = 1, .high_freq_factor = 1, .original_max_position = 8192};
  const auto found = inverse_frequencies(rope, 128), plain = inverse_frequencies({.theta = 5e5}, 128);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const bool divided = 2 * std::numbers::pi / static_cast<double>(plain[i]) > 8192;
    EXPECT_EQ(found[i], divided ? plain[i] / 16 : plain[i]) << i;
  }
  EXPECT_LT(found.back(), plain.back());
}

TEST(Rotary, RefusesWhatMakesNoTable) {
  tests::expect_error([] { (void)inverse_frequencies(llama31(), 7); }, ExitCode::model, {"head_dim = 7", "even"});
  auto rope = llama31();
  rope.high_freq_factor = 0.5;
  tests::expect_error([&] { (void)inverse_frequencies(rope, 8); }, ExitCode::model, {"high_freq_factor = 0.5"});
  rope.factor = 0;
  tests::expect_error([&] { (void)inverse_frequencies(rope, 8); }, ExitCode::model, {"factor = 0"});
}

}  // namespace
}  // namespace millrace::layers
