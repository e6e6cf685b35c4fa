#include "kernels/choose_keys.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/base/torch_topk.hpp"
#include "tests/kernels/fixture.hpp"

namespace millrace::kernels::testing {
namespace {

using tests::roundings;

struct KeysCase {
  std::int64_t rows, sequence, heads, width, chosen;
  std::int64_t document = 0;  // tokens per segment; 0: one segment per row
  bool alternating = false;   // tokens belong to two documents in turn
  [[nodiscard]] std::int64_t tokens() const { return rows * sequence; }
};

void PrintTo(const KeysCase& c, std::ostream* out) {
  *out << c.rows << " rows of " << c.sequence << ", " << c.heads << " heads of " << c.width << ", " << c.chosen << " keys, documents of "
       << c.document << (c.alternating ? " in turn" : "");
}

const KeysCase kKeysCases[] = {{1, 1, 1, 1, 1},
                               {2, 1, 3, 5, 4},
                               {1, 7, 2, 16, 3},
                               {3, 17, 4, 12, 5, 6},
                               {1, 64, 1, 16, 64},
                               {2, 65, 3, 20, 1},
                               {1, 130, 7, 33, 40, 50},
                               {1, 200, 2, 8, 31, 0, true},
                               {1, 129, 6, 128, 7, 1},
                               {1, 300, 2, 4, 256, 290},
                               {1, 330, 5, 16, 100, 0},
                               {0, 8, 2, 4, 3},
                               {1, 40, 8, 16, 1000},
                               {1, 97, 13, 7, 96, 0},
                               {2, 67, 64, 12, 33, 0, true}};

struct KeysCall {
  KeysCall(const KeysCase& at, DType dtype)
      : c(at),
        q(dtype, {c.tokens(), c.heads, c.width}, 1),
        k(dtype, {c.tokens(), c.width}, 2),
        weights(DType::f32, {c.tokens(), c.heads}, 3),
        segments(DType::i32, {c.tokens()}),
        keys(DType::i32, {c.tokens(), c.chosen}, 4, 100) {
    for (std::int64_t t = 0; t < c.tokens(); ++t) {
      const std::int64_t place = t % c.sequence;
      segments.set(t, static_cast<double>(c.alternating ? 1 + place % 2 : c.document == 0 ? 1 : 1 + place / c.document));
    }
  }
  /// Small integers and halves, whose scores are exact in fp32 in any order and often equal.
  void make_exact() {
    for (std::int64_t i = 0; i < q.elements(); ++i) q.set(i, std::round(2 * q.get(i)));
    for (std::int64_t i = 0; i < k.elements(); ++i) k.set(i, std::round(2 * k.get(i)));
    for (std::int64_t i = 0; i < weights.elements(); ++i) weights.set(i, std::round(2 * weights.get(i)) / 2);
  }
  void run(const ExecutionContext& context) {
    const ChooseKeysOptions options{.sequence = c.sequence, .keys_per_query = c.chosen, .scale = 0.25F};
    const Buffer scratch = scratch_of(context, choose_keys_scratch_bytes((*q).shape, (*q).dtype, options, context.processor()));
    choose_keys(context, *q, *k, *weights, *segments, options, *keys, scratch.bytes());
    wait();
  }
  [[nodiscard]] bool sees(std::int64_t t, std::int64_t u) const {
    return u / c.sequence == t / c.sequence && u <= t && segments.at(u) == segments.at(t);
  }
  /// The score by its definition, and the sum of the magnitudes of its terms.
  [[nodiscard]] std::pair<double, double> score(std::int64_t t, std::int64_t u) const {
    double sum = 0, size = 0;
    for (std::int64_t h = 0; h < c.heads; ++h) {
      double product = 0, of_product = 0;
      for (std::int64_t d = 0; d < c.width; ++d) {
        const double term = q.at((t * c.heads + h) * c.width + d) * k.at(u * c.width + d);
        product += term;
        of_product += std::abs(term);
      }
      sum += 0.25 * weights.at(t * c.heads + h) * std::max(product, 0.0);
      size += 0.25 * std::abs(weights.at(t * c.heads + h)) * of_product;
    }
    return {sum, size};
  }
  KeysCase c;
  Data q, k, weights, segments, keys;
};

/// The list must be valid, and no key that was left out may be better than one that was chosen, but for roundings.
void expect_best(const KeysCall& at) {
  const KeysCase& c = at.c;
  for (std::int64_t t = 0; t < c.tokens(); ++t) {
    std::vector<bool> chosen(static_cast<std::size_t>(c.sequence), false);
    std::int64_t count = 0, seen = 0, last = -1;
    for (std::int64_t i = 0; i < c.chosen; ++i) {
      const auto key = static_cast<std::int64_t>(at.keys.at(t * c.chosen + i));
      if (key == -1) continue;
      ASSERT_EQ(count, i) << "a key behind the end of token " << t;
      ASSERT_GT(key, last) << "token " << t;
      ASSERT_LT(key, c.sequence) << "token " << t;
      ASSERT_TRUE(at.sees(t, t - t % c.sequence + key)) << "token " << t << " key " << key;
      chosen[static_cast<std::size_t>(key)] = true;
      last = key;
      ++count;
    }
    double worst = std::numeric_limits<double>::infinity(), best_left = -worst, error = 0;
    for (std::int64_t u = 0; u < c.sequence; ++u) {
      const std::int64_t token = t - t % c.sequence + u;
      if (!at.sees(t, token)) continue;
      ++seen;
      const auto [score, size] = at.score(t, token);
      // Sums of `width` products, of as many heads, times weight and scale.
      error = std::max(error, roundings(static_cast<double>(c.width + c.heads + 2)) * size);
      if (chosen[static_cast<std::size_t>(u)])
        worst = std::min(worst, score);
      else
        best_left = std::max(best_left, score);
    }
    ASSERT_EQ(count, std::min(seen, c.chosen)) << "token " << t;
    ASSERT_LE(best_left, worst + 2 * error) << "token " << t;
  }
}

TEST(ChooseKeys, ChoosesTheBestForAnyThreadCount) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const KeysCase& c : kKeysCases) {
      SCOPED_TRACE(::testing::PrintToString(c) + " " + std::string(to_string(dtype)));
      ThreadTeam one(1);
      KeysCall expected(c, dtype), found(c, dtype);
      expected.run(ExecutionContext(one, Implementation::reference));
      found.run(fast(one));
      expect_best(expected);
      expect_best(found);
      for (const int threads : {2, 3}) {
        ThreadTeam team(threads);
        KeysCall many(c, dtype);
        many.run(fast(team));
        EXPECT_TRUE(same_bits(found.keys, many.keys));
      }
    }
}

// Positive parts that are all 0, weights of 0 and small integers make many equal scores: then the lower place is chosen.
TEST(ChooseKeys, OfEqualScoresTheLowerPlaceIsBetter) {
  ThreadTeam team(2);
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const KeysCase& c : kKeysCases) {
      SCOPED_TRACE(::testing::PrintToString(c));
      KeysCall expected(c, dtype), found(c, dtype);
      for (KeysCall* call : {&expected, &found}) call->make_exact();
      expected.run(ExecutionContext(team, Implementation::reference));
      found.run(fast(team));
      EXPECT_TRUE(same_bits(expected.keys, found.keys));
      for (std::int64_t t = 0; t < c.tokens(); ++t) {
        std::vector<std::pair<double, std::int64_t>> seen;  // −score, so that they are in order
        for (std::int64_t u = 0; u < c.sequence; ++u)
          if (const std::int64_t token = t - t % c.sequence + u; found.sees(t, token)) seen.emplace_back(-found.score(t, token).first, u);
        std::ranges::sort(seen);
        std::vector<std::int64_t> best;
        for (std::size_t i = 0; i < seen.size() && i < static_cast<std::size_t>(c.chosen); ++i) best.push_back(seen[i].second);
        std::ranges::sort(best);
        best.resize(static_cast<std::size_t>(c.chosen), -1);
        for (std::int64_t i = 0; i < c.chosen; ++i)
          ASSERT_EQ(found.keys.at(t * c.chosen + i), best[static_cast<std::size_t>(i)]) << "token " << t << " entry " << i;
      }
    }
}

// The sign of a zero depends on the order of its sum.
TEST(ChooseKeys, BothZerosAreEqualAndANotANumberIsBest) {
  ThreadTeam team(1);
  for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
    KeysCall call({1, 6, 1, 1, 2}, DType::f32);
    for (std::int64_t t = 0; t < 6; ++t) {
      call.q.set(t, 1);
      call.k.set(t, t < 3 ? -1 : 1);  // the last three have scores of weight · 1
      call.weights.set(t, t == 4 ? -1 : 0);
    }
    call.run(stream_of(team, implementation));
    // Token 4 has scores of −0 for three keys, then −1, −1; token 5 has 0 for all, of either sign.
    for (const std::int64_t t : {4, 5}) {
      EXPECT_EQ(call.keys.get(2 * t), 0);
      EXPECT_EQ(call.keys.get(2 * t + 1), 1);
    }
    call.k.set(3, std::numeric_limits<double>::quiet_NaN());
    call.run(stream_of(team, implementation));
    EXPECT_EQ(call.keys.get(8), 0);
    EXPECT_EQ(call.keys.get(9), 3);
  }
}

// A query of tests/golden/hf_deepseek_v32, with rounded scores: of the two that are 0 transformers' choice, which its output shows, has the
// higher place.
TEST(ChooseKeys, MayBreakTiesAsTorchDoes) {
  MILLRACE_CPU_ONLY();
  ThreadTeam team(2);
  const double scores[] = {0, -2.25, -2.375, -3.875, 1.5, 3.625, -0.0625, 2.125, 3.125, 0.75, 0, -1.1875};
  for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
    const ExecutionContext context = stream_of(team, implementation);
    KeysCall call({1, 20, 2, 1, 6}, DType::f32);
    for (std::int64_t t = 0; t < 20; ++t) {
      call.k.set(t, t < 12 ? scores[t] : 5);
      for (const std::int64_t h : {0, 1}) {  // max(k, 0) − max(−k, 0) is k
        call.q.set(2 * t + h, h == 0 ? 1 : -1);
        call.weights.set(2 * t + h, h == 0 ? 1 : -1);
      }
    }
    const auto expect = [&](bool torch_ties, const std::vector<double>& expected) {
      const ChooseKeysOptions options{.sequence = 20, .keys_per_query = 6, .torch_ties = torch_ties};
      const Buffer scratch = scratch_of(context, choose_keys_scratch_bytes((*call.q).shape, DType::f32, options, context.processor()));
      choose_keys(context, *call.q, *call.k, *call.weights, *call.segments, options, *call.keys, scratch.bytes());
      for (std::int64_t i = 0; i < 6; ++i) EXPECT_EQ(call.keys.get(11 * 6 + i), expected[static_cast<std::size_t>(i)]) << i;
    };
    expect(false, {0, 4, 5, 7, 8, 9});
    expect(true, {4, 5, 7, 8, 9, 10});
  }
}

// The C++ standard library does not say which of equal entries come first, so these are the choices of GNU's, with which PyTorch is built:
// by quickselect, and by a heap where few of many are chosen. Scores repeat 0, 2, 1, 1, 0.
TEST(TorchTopk, TakesThePinnedOnesOfEqualScores) {
  const auto chosen = [](std::int32_t count, std::int64_t number) {
    std::vector<ScoredPlace> entries;
    for (std::int32_t i = 0; i < count; ++i) entries.push_back({static_cast<float>(i * 7 % 5 % 3), i});
    torch_topk(entries.data(), count, number);
    std::vector<std::int32_t> places;
    for (std::int64_t i = 0; i < number; ++i) places.push_back(entries[static_cast<std::size_t>(i)].place);
    std::ranges::sort(places);
    return places;
  };
  using Places = std::vector<std::int32_t>;
  EXPECT_EQ(chosen(40, 7), (Places{1, 6, 11, 16, 21, 26, 36}));
  EXPECT_EQ(chosen(40, 20), (Places{1, 2, 6, 7, 8, 11, 16, 17, 18, 21, 22, 23, 26, 27, 28, 31, 32, 33, 36, 38}));
  EXPECT_EQ(chosen(256, 4), (Places{1, 6, 11, 16}));
  EXPECT_EQ(chosen(300, 4), (Places{1, 6, 11, 16}));
}

// What another document or the future has does not matter.
TEST(ChooseKeys, DependsOnNothingThatIsNotSeen) {
  ThreadTeam team(1);
  KeysCall call({1, 150, 3, 20, 20, 70}, DType::f32), changed({1, 150, 3, 20, 20, 70}, DType::f32);
  for (std::int64_t u = 0; u < 150; ++u)
    if (u < 70 || u > 100)
      for (std::int64_t d = 0; d < 20; ++d) changed.k.set(u * 20 + d, 3);
  call.run(fast(team));
  changed.run(fast(team));
  for (std::int64_t i = 70 * 20; i < 101 * 20; ++i) EXPECT_EQ(call.keys.get(i), changed.keys.get(i));
}

TEST(ChooseKeys, AllocatesNothing) {
  MILLRACE_CPU_ONLY();
  ThreadTeam team(2);
  const ExecutionContext context = fast(team);
  const KeysCall call({1, 300, 4, 32, 64}, DType::bf16);
  const ChooseKeysOptions options{300, 64};
  const Buffer scratch = scratch_of(context, choose_keys_scratch_bytes((*call.q).shape, DType::bf16, options, context.processor()));
  const std::int64_t before = large_allocations();
  choose_keys(context, *call.q, *call.k, *call.weights, *call.segments, options, *call.keys, scratch.bytes());
  EXPECT_EQ(large_allocations(), before);
}

TEST(ChooseKeys, RefusesOtherShapes) {
  ThreadTeam team(1);
  const ExecutionContext context = fast(team);
  const KeysCall call({2, 6, 3, 4, 2}, DType::f32);
  const Buffer scratch = scratch_of(context, 1 << 20);
  const Data half(DType::bf16, {12, 4}), narrow(DType::f32, {12, 3}), few(DType::f32, {12, 2}), long_lists(DType::i32, {12, 3});
  const auto code = [&](const Data& q, const Data& k, const Data& weights, const Data& keys, ChooseKeysOptions options) {
    return thrown([&] { choose_keys(context, *q, *k, *weights, *call.segments, options, *keys, scratch.bytes()); });
  };
  constexpr int internal = static_cast<int>(ExitCode::internal);
  EXPECT_EQ(code(call.q, call.k, call.weights, call.keys, {6, 2}), -1);
  EXPECT_EQ(code(call.q, call.k, call.weights, call.keys, {5, 2}), internal);
  EXPECT_EQ(code(call.q, call.k, call.weights, call.keys, {0, 2}), internal);
  EXPECT_EQ(code(call.q, call.k, call.weights, call.keys, {6, 3}), internal);
  EXPECT_EQ(code(call.q, call.k, call.weights, call.keys, {6, 0}), static_cast<int>(ExitCode::config));
  EXPECT_EQ(code(call.k, call.k, call.weights, call.keys, {6, 2}), internal);
  EXPECT_EQ(code(call.q, half, call.weights, call.keys, {6, 2}), internal);
  EXPECT_EQ(code(call.q, narrow, call.weights, call.keys, {6, 2}), internal);
  EXPECT_EQ(code(call.q, call.k, few, call.keys, {6, 2}), internal);
  EXPECT_EQ(code(call.q, call.k, call.weights, call.k, {6, 2}), internal);
  EXPECT_EQ(code(call.q, call.k, call.weights, long_lists, {6, 2}), internal);
}

}  // namespace
}  // namespace millrace::kernels::testing
