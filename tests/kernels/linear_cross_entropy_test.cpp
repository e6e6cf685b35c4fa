#include "kernels/linear_cross_entropy.hpp"

#include "kernels/base/cpu_features.hpp"
#include "kernels/count_matches.hpp"
#include "kernels/cpu/linear_cross_entropy_loops.hpp"
#include "tests/kernels/fixture.hpp"

namespace millrace::kernels {
namespace {

using testing::Data;
using testing::fast;
using testing::lies_within;
using testing::scratch_of;
using testing::stream_of;
using testing::wait;
using tests::around;
using tests::fp32_roundoff;
using tests::Interval;
using tests::roundings;

struct HeadCase {
  std::int64_t tokens, width, vocabulary;
};

void PrintTo(const HeadCase& c, std::ostream* out) { *out << c.tokens << " tokens, width " << c.width << ", vocabulary " << c.vocabulary; }

/// One configuration of the head; every fifth token is masked.
struct Head {
  Data h, w, targets, g;
  CrossEntropyOptions options;

  Head(HeadCase size, DType dtype, CrossEntropyOptions with = {.z_loss = 1e-2F})
      : h(dtype, {size.tokens, size.width}, 1, 2.0F),
        w(dtype, {size.vocabulary, size.width}, 2),
        targets(DType::i32, {size.tokens}),
        g(DType::f32, {1}),
        options(with) {
    g.set(0, 0.25);
    for (std::int64_t token = 0; token < size.tokens; ++token)
      targets.set(token, token % 5 == 4 ? -1.0 : static_cast<double>((token * 7919) % size.vocabulary));
  }
};

constexpr CrossEntropyOptions kShaped{.z_loss = 1e-2F, .scale = 0.5F, .soft_cap = 3.0F};
constexpr CrossEntropyOptions kRounded{.scale = 0.25F, .round_table = true};

struct HeadResults {
  Data loss, log_sum_exp, dh, dw;
  Data forward_loss, forward_log_sum_exp;              // of the evaluation call
  Data both_loss, both_log_sum_exp, both_dh, both_dw;  // of the call for both gradients

  HeadResults(const Head& head, ThreadTeam& team, Implementation implementation = Implementation::fast)
      : loss(DType::f64, {2}),
        log_sum_exp(DType::f32, {(*head.h).shape[0]}),
        dh((*head.h).dtype, (*head.h).shape),
        dw(DType::f32, (*head.w).shape, 9),
        forward_loss(loss),
        forward_log_sum_exp(log_sum_exp),
        both_loss(loss),
        both_log_sum_exp(log_sum_exp),
        both_dh(dh),
        both_dw(dw) {
    const ExecutionContext context = stream_of(team, implementation);
    const Buffer scratch = scratch_of(
        context, linear_cross_entropy_scratch_bytes((*head.h).shape, (*head.w).shape, (*head.h).dtype, head.options, context.processor()));
    linear_cross_entropy_forward(context, *head.h, *head.w, *head.targets, head.options, *forward_loss, *forward_log_sum_exp,
                                 scratch.bytes());
    linear_cross_entropy_input_gradient(context, *head.h, *head.w, *head.targets, *head.g, head.options, *dh, *loss, *log_sum_exp,
                                        scratch.bytes());
    linear_cross_entropy_weight_gradient(context, *head.h, *head.w, *head.targets, *log_sum_exp, *head.g, head.options, *dw,
                                         scratch.bytes());
    linear_cross_entropy_gradients(context, *head.h, *head.w, *head.targets, *head.g, head.options, *both_dh, *both_loss, *both_log_sum_exp,
                                   *both_dw, scratch.bytes());
  }
};

std::vector<double> doubles_of(const Data& data) {
  std::vector<double> values(static_cast<std::size_t>(data.elements()));
  for (std::int64_t i = 0; i < data.elements(); ++i) values[static_cast<std::size_t>(i)] = data.get(i);
  return values;
}

/// The definition of the head in double, with error bounds for fp32: errors are propagated from the logits' sums of D products
/// through exponentials (two units in the last place), tanh (four) and derivatives to the sums over tokens and entries.
class HeadTruth {
 public:
  /// `dw_before`: the previous value of dw. `rounds_dl`: the products read dl in bf16.
  HeadTruth(const Head& head, const Data& dw_before, bool rounds_dl)
      : head_(head),
        tokens_((*head.h).shape[0]),
        width_((*head.h).shape[1]),
        vocabulary_((*head.w).shape[0]),
        h_(doubles_of(head.h)),
        w_(doubles_of(head.w)),
        dw_before_(doubles_of(dw_before)),
        rounds_dl_(rounds_dl),
        logits_(static_cast<std::size_t>(tokens_ * vocabulary_)),
        dl_(logits_.size()),
        log_sum_exp_(static_cast<std::size_t>(tokens_)) {
    if (head.options.round_table)
      for (double& value : w_) value = testing::stored_as(DType::bf16, value);
    for (std::int64_t token = 0; token < tokens_; ++token) {
      follow_logits(token);
      follow_sum(token);
      follow_dl(token);
    }
    for (std::int64_t token = 0; token < tokens_; ++token)
      for (std::int64_t column = 0; column < width_; ++column) dh_.push_back(sum_over_entries(token, column));
    for (std::int64_t entry = 0; entry < vocabulary_; ++entry)
      for (std::int64_t column = 0; column < width_; ++column) dw_.push_back(sum_over_tokens(entry, column));
  }

  [[nodiscard]] Interval logit(std::int64_t i) const { return logits_[static_cast<std::size_t>(i)].interval(); }
  [[nodiscard]] Interval log_sum_exp(std::int64_t token) const { return log_sum_exp_[static_cast<std::size_t>(token)].interval(); }
  [[nodiscard]] Interval loss(std::int64_t i) const { return loss_[i].interval(); }

  [[nodiscard]] Interval dh(std::int64_t i) const { return dh_[static_cast<std::size_t>(i)]; }
  [[nodiscard]] Interval dw(std::int64_t i) const { return dw_[static_cast<std::size_t>(i)]; }

 private:
  struct Number {
    double value = 0, error = 0, slope = 1, slope_error = 0;
    [[nodiscard]] Interval interval() const { return around(value, error); }
  };
  /// A sum of products with dl, with its error bound.
  struct Sum {
    double value = 0, error = 0, size = 0, squares = 0;
    void add(const Number& dl, double factor) {
      const double term = dl.value * factor;
      value += term;
      error += dl.error * std::abs(factor);
      size += std::abs(term);
      squares += term * term;
    }
    /// Roundings of dl to bf16 are independent: their sum is bounded by six standard deviations, and by the sum of all.
    [[nodiscard]] Interval interval(std::int64_t terms, bool rounds, double start) const {
      const double narrow = rounds ? tests::bf16_roundoff * std::min(size, 6 * std::sqrt(squares)) : 0;
      return around(start + value, error + narrow + roundings(static_cast<double>(terms) + 2) * (size + std::abs(start)));
    }
  };
  static constexpr double u = fp32_roundoff;

  Number* row(std::vector<Number>& of, std::int64_t token) const { return of.data() + token * vocabulary_; }

  void follow_logits(std::int64_t token) {
    const double scale = head_.options.scale, cap = head_.options.soft_cap;
    for (std::int64_t entry = 0; entry < vocabulary_; ++entry) {
      const double *h = h_.data() + token * width_, *w = w_.data() + entry * width_;
      double sum = 0, size = 0;
      for (std::int64_t i = 0; i < width_; ++i) {
        const double term = h[i] * w[i];
        sum += term;
        size += term < 0 ? -term : term;
      }
      Number& logit = row(logits_, token)[entry];
      logit = {sum * scale, scale * size * roundings(static_cast<double>(width_) + 1), scale, 0};
      if (cap <= 0) continue;
      const double share = std::tanh(logit.value / cap), rest = 1 - share * share;
      logit.error = (logit.error + 2 * u * std::abs(logit.value)) * rest + 10 * u * cap * std::abs(share);
      logit.value = cap * share;
      logit.slope = scale * rest;
      logit.slope_error = scale * (2 * std::abs(share) * (logit.error / cap + 2 * u * std::abs(share)) + 2 * u);
    }
  }

  void follow_sum(std::int64_t token) {
    const Number* const logits = row(logits_, token);
    double maximum = logits[0].value, sum = 0, error = 0;
    for (std::int64_t entry = 0; entry < vocabulary_; ++entry) maximum = std::max(maximum, logits[entry].value);
    for (std::int64_t entry = 0; entry < vocabulary_; ++entry) {
      const double weight = std::exp(logits[entry].value - maximum);
      sum += weight;
      error += weight * (logits[entry].error + u * std::abs(logits[entry].value - maximum));
    }
    const double lse = maximum + std::log(sum);
    // The exponentials' four roundoffs, their sum's, the number's own.
    log_sum_exp_[static_cast<std::size_t>(token)] = {lse,
                                                     error / sum + 4 * u + roundings(static_cast<double>(vocabulary_)) + u * std::abs(lse)};
  }

  void follow_dl(std::int64_t token) {
    const auto target = static_cast<std::int64_t>(head_.targets.get(token));
    if (target < 0) return;
    const Number lse = log_sum_exp_[static_cast<std::size_t>(token)];
    const double z = head_.options.z_loss, g = head_.g.get(0), coefficient = 1 + 2 * z * lse.value;
    const Number& at_target = row(logits_, token)[target];
    loss_[0].value += lse.value - at_target.value + z * lse.value * lse.value;
    loss_[0].error += lse.error * (1 + 2 * z * std::abs(lse.value)) + at_target.error + u * std::abs(at_target.value);
    loss_[1].value += z * lse.value * lse.value;
    loss_[1].error += 2 * z * std::abs(lse.value) * lse.error;
    for (std::int64_t entry = 0; entry < vocabulary_; ++entry) {
      const Number& logit = row(logits_, token)[entry];
      const double onehot = entry == target ? 1 : 0, away = logit.value - lse.value, p = coefficient * std::exp(away);
      // The exponential of a difference with this error, and four products and sums.
      const double p_error = p * (logit.error + lse.error + u * std::abs(away) + 4 * u + 2 * z * lse.error);
      const double slope = std::abs(logit.slope), difference = p - onehot;
      row(dl_, token)[entry] = {g * difference * logit.slope, g * ((p_error + 4 * u * (p + onehot)) * slope +
                                                                   std::abs(difference) * (logit.slope_error + 2 * u * slope))};
    }
  }

  [[nodiscard]] Interval sum_over_entries(std::int64_t token, std::int64_t column) const {
    Sum sum;
    for (std::int64_t entry = 0; entry < vocabulary_; ++entry)
      sum.add(dl_.data()[token * vocabulary_ + entry], w_.data()[entry * width_ + column]);
    return sum.interval(vocabulary_, rounds_dl_, 0);
  }
  [[nodiscard]] Interval sum_over_tokens(std::int64_t entry, std::int64_t column) const {
    Sum sum;
    for (std::int64_t token = 0; token < tokens_; ++token)
      sum.add(dl_.data()[token * vocabulary_ + entry], h_.data()[token * width_ + column]);
    const double before = dw_before_[static_cast<std::size_t>(entry * width_ + column)];
    if (!head_.options.round_table) return sum.interval(tokens_, rounds_dl_, before);
    return testing::stored_as(DType::bf16, sum.interval(tokens_, rounds_dl_, 0)) + Interval{before, before};
  }

  const Head& head_;
  std::int64_t tokens_, width_, vocabulary_;
  std::vector<double> h_, w_, dw_before_;
  bool rounds_dl_;
  std::vector<Number> logits_, dl_, log_sum_exp_;
  Number loss_[2];
  std::vector<Interval> dh_, dw_;
};

class LinearCrossEntropyEquivalentToReference : public ::testing::TestWithParam<HeadCase> {};

TEST_P(LinearCrossEntropyEquivalentToReference, AndGradientsHaveTheBitsOfOneAfterTheOther) {
  for (const auto& [dtype, options] : {std::pair{DType::f32, CrossEntropyOptions{.z_loss = 1e-2F}},
                                       {DType::bf16, {.z_loss = 1e-2F}},
                                       {DType::f32, kShaped},
                                       {DType::bf16, kShaped},
                                       {DType::f32, kRounded},
                                       {DType::bf16, kRounded}}) {
    const Head head(GetParam(), dtype, options);
    const bool rounds_dl = dtype == DType::bf16 && (testing::on_device() || cpu_features().fast_bf16());
    const Data dw_before(DType::f32, (*head.w).shape, 9);
    const HeadTruth truth(head, dw_before, rounds_dl), unrounded(head, dw_before, false);
    const auto check = [](const HeadResults& found, const HeadTruth& exact) {
      EXPECT_TRUE(lies_within(found.loss, [&](std::int64_t i) { return exact.loss(i); }));
      EXPECT_TRUE(lies_within(found.log_sum_exp, [&](std::int64_t i) { return exact.log_sum_exp(i); }));
      EXPECT_TRUE(lies_within(found.dh, [&](std::int64_t i) { return exact.dh(i); }));
      EXPECT_TRUE(lies_within(found.dw, [&](std::int64_t i) { return exact.dw(i); }));
    };
    ThreadTeam one(1);
    check(HeadResults(head, one, Implementation::reference), unrounded);
    for (const int threads : {1, 2, 3}) {
      ThreadTeam team(threads);
      const HeadResults fast(head, team), again(head, team);
      check(fast, truth);
      EXPECT_TRUE(same_bits(fast.loss, fast.forward_loss));
      EXPECT_TRUE(same_bits(fast.log_sum_exp, fast.forward_log_sum_exp));
      EXPECT_TRUE(same_bits(fast.loss, fast.both_loss));
      EXPECT_TRUE(same_bits(fast.log_sum_exp, fast.both_log_sum_exp));
      EXPECT_TRUE(same_bits(fast.dh, fast.both_dh));
      EXPECT_TRUE(same_bits(fast.dw, fast.both_dw));
      EXPECT_TRUE(same_bits(fast.dh, again.dh));
      EXPECT_TRUE(same_bits(fast.dw, again.dw));
      EXPECT_TRUE(same_bits(fast.loss, again.loss));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, LinearCrossEntropyEquivalentToReference,
                         ::testing::Values(HeadCase{1, 1, 1}, HeadCase{1, 8, 257}, HeadCase{59, 43, 97}, HeadCase{37, 16, 1024},
                                           HeadCase{19, 12, 2111}, HeadCase{300, 9, 1100}));

TEST(LinearCrossEntropy, ManyTokensOverFewEntriesComputeTheirLogitsOnce) {
  const auto products = [](std::int64_t tokens, std::int64_t vocabulary, CrossEntropyOptions options = {}) {
    return linear_cross_entropy_gradients_products({tokens, 8}, {vocabulary, 8}, DType::f32, options);
  };
  EXPECT_EQ(products(10, 1024), 3);
  EXPECT_EQ(products(300, 1100), 3);
  EXPECT_EQ(products(2048, 8192), 3);
  EXPECT_EQ(products(2032, 8192), 4);
  EXPECT_EQ(products(4096, 128256), 4);
  EXPECT_EQ(products(300, 1100, kRounded), 4);  // the sum over all tokens is rounded
}

// Where the vocabulary is more than a tile, it is cut into as few tiles as will do, alike and of whole vectors.
TEST(LinearCrossEntropy, TilesAreFewAndAlike) {
  const auto bytes = [](std::int64_t vocabulary) {
    return linear_cross_entropy_scratch_bytes({64, 8}, {vocabulary, 8}, DType::f32, {}, 1);
  };
  EXPECT_LT(bytes(1000), bytes(1024));
  EXPECT_LT(bytes(1025), bytes(1024)) << "two tiles of half as much";
  EXPECT_LT(bytes(1152), bytes(1153)) << "twice 576, nine times 64, and twice 640";
  EXPECT_EQ(bytes(2048), bytes(1024)) << "two whole tiles";
}

TEST(LinearCrossEntropy, GradientsAgreeWithFiniteDifferences) {
  ThreadTeam team(2);
  for (const auto& options : {CrossEntropyOptions{.z_loss = 1e-2F}, kShaped}) {
    Head head({7, 5, 11}, DType::f32, options);
    const HeadResults at(head, team);
    const auto loss_of = [&](Data& data, std::int64_t i, double change) {
      const double before = data.get(i);
      data.set(i, before + change);
      const double loss = HeadResults(head, team, Implementation::reference).loss.get(0);
      data.set(i, before);
      return loss;
    };
    const double step = 0x1p-10, g = head.g.get(0);
    const Data start(DType::f32, {11, 5}, 9);  // previous value of dw
    for (std::int64_t i = 0; i < head.h.elements(); ++i)
      EXPECT_NEAR(at.dh.get(i), g * (loss_of(head.h, i, step) - loss_of(head.h, i, -step)) / (2 * step), 2e-5) << "h " << i;
    for (std::int64_t i = 0; i < head.w.elements(); ++i)
      EXPECT_NEAR(at.dw.get(i) - start.get(i), g * (loss_of(head.w, i, step) - loss_of(head.w, i, -step)) / (2 * step), 2e-5) << "w " << i;
  }
}

TEST(LinearCrossEntropy, LogitsAreThoseOfTheLoss) {
  ThreadTeam team(2);
  for (const CrossEntropyOptions& options : {CrossEntropyOptions{}, kShaped, kRounded}) {
    const Head head({5, 7, 1301}, DType::f32, options);
    Data found(DType::f32, {5, 1301}), wanted(DType::f32, {5, 1301});
    const ExecutionContext context = fast(team), reference(team, Implementation::reference);
    const auto bytes = [&](const ExecutionContext& of) {
      return linear_cross_entropy_scratch_bytes((*head.h).shape, (*head.w).shape, DType::f32, options, of.processor());
    };
    const Buffer scratch = scratch_of(context, bytes(context)), reference_scratch = scratch_of(reference, bytes(reference));
    linear_logits(context, *head.h, *head.w, options, *found, scratch.bytes());
    linear_logits(reference, *head.h, *head.w, options, *wanted, reference_scratch.bytes());
    const HeadTruth truth(head, Data(DType::f32, {1301, 7}, 9), false);
    for (const Data* logits : {&found, &wanted}) EXPECT_TRUE(lies_within(*logits, [&](std::int64_t i) { return truth.logit(i); }));
    const HeadResults results(head, team);
    for (std::int64_t token = 0; token < 5; ++token) {
      double sum = 0;
      for (std::int64_t i = 0; i < 1301; ++i) sum += std::exp(found.get(token * 1301 + i));
      EXPECT_NEAR(results.log_sum_exp.get(token), std::log(sum), 1e-5);
    }
  }
}

/// The entry is that of the largest logit which the same device computes, whatever tiles it is found in.
TEST(LinearArgmax, IsTheFirstOfTheLargestLogits) {
  struct Case {
    HeadCase size;
    DType dtype;
    CrossEntropyOptions options;
  };
  const std::vector<Case> cases{{{5, 7, 1}, DType::f32, {}},
                                {{9, 16, 1301}, DType::f32, kShaped},
                                {{3, 8, 5000}, DType::bf16, {}},
                                {{300, 8, 70000}, DType::f32, {}},
                                {{17, 24, 4099}, DType::f32, kRounded}};
  for (const Case& each : cases) {
    SCOPED_TRACE(::testing::PrintToString(each.size));
    Head head(each.size, each.dtype, each.options);
    // Two entries are equal, and the largest where h is positive along them.
    for (std::int64_t i = 0; i < each.size.width && each.size.vocabulary > 1; ++i)
      for (const std::int64_t entry : {each.size.vocabulary - 1, each.size.vocabulary / 2}) head.w.set(entry * each.size.width + i, 2.0);
    for (const int threads : {1, 2, 3}) {
      ThreadTeam team(threads);
      const ExecutionContext context = fast(team);
      const std::size_t bytes =
          linear_cross_entropy_scratch_bytes((*head.h).shape, (*head.w).shape, each.dtype, each.options, context.processor());
      const Buffer scratch = scratch_of(context, bytes);
      Data logits(DType::f32, {each.size.tokens, each.size.vocabulary}), entries(DType::i32, {each.size.tokens});
      linear_logits(context, *head.h, *head.w, each.options, *logits, scratch.bytes());
      linear_argmax(context, *head.h, *head.w, each.options, *entries, scratch.bytes());
      wait();
      for (std::int64_t token = 0; token < each.size.tokens; ++token) {
        std::int64_t best = 0;
        for (std::int64_t entry = 1; entry < each.size.vocabulary; ++entry)
          if (logits.get(token * each.size.vocabulary + entry) > logits.get(token * each.size.vocabulary + best)) best = entry;
        EXPECT_EQ(entries.get(token), static_cast<double>(best)) << "token " << token << ", " << threads << " threads";
      }
    }
  }
}

/// A reference with sums in double has other largest entries only where two logits are nearly equal; here none are.
TEST(LinearArgmax, MatchesItsReference) {
  ThreadTeam team(2);
  const Head head({40, 12, 1500}, DType::f32, {});
  const ExecutionContext context = fast(team), reference(team, Implementation::reference);
  Data found(DType::i32, {40}), wanted(DType::i32, {40});
  const Buffer scratch = scratch_of(
      context, linear_cross_entropy_scratch_bytes((*head.h).shape, (*head.w).shape, DType::f32, head.options, context.processor()));
  linear_argmax(context, *head.h, *head.w, head.options, *found, scratch.bytes());
  linear_argmax(reference, *head.h, *head.w, head.options, *wanted, {});
  wait();
  for (std::int64_t token = 0; token < 40; ++token) EXPECT_EQ(found.get(token), wanted.get(token)) << token;
}

TEST(CountMatches, CountsWhereThereIsATarget) {
  ThreadTeam team(2);
  for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
    Data x(DType::i32, {1000}), y(DType::i32, {1000}), targets(DType::i32, {1000}), count(DType::f64, {1});
    int expected = 0;
    for (std::int64_t i = 0; i < 1000; ++i) {
      x.set(i, static_cast<double>(i % 3));
      y.set(i, static_cast<double>(i % 5));
      targets.set(i, i % 7 == 0 ? -1.0 : 0.0);
      expected += i % 3 == i % 5 && i % 7 != 0 ? 1 : 0;
    }
    count_matches(stream_of(team, implementation), *x, *y, *targets, *count);
    testing::wait();
    EXPECT_EQ(count.get(0), expected);
  }
}

TEST(LinearCrossEntropy, RoundsTheTableAndItsGradientWhereAsked) {
  ThreadTeam team(1);
  Head head({4, 3, 70}, DType::f32, {.round_table = true});
  const HeadResults rounded(head, team);
  const Data start(DType::f32, {70, 3}, 9);
  for (std::int64_t i = 0; i < head.w.elements(); ++i) {
    EXPECT_EQ(rounded.dw.get(i),
              static_cast<float>(start.get(i)) + to_float(to_bfloat16(static_cast<float>(rounded.dw.get(i) - start.get(i)))));
    head.w.set(i, to_float(to_bfloat16(static_cast<float>(head.w.get(i)))));
  }
  // A table that is already rounded gives the same loss and the same gradient of h.
  head.options.round_table = false;
  const HeadResults plain(head, team);
  EXPECT_TRUE(same_bits(plain.loss, rounded.loss));
  EXPECT_TRUE(same_bits(plain.dh, rounded.dh));
  EXPECT_FALSE(same_bits(plain.dw, rounded.dw));
}

TEST(LinearCrossEntropy, MaskedTokensCountForNothing) {
  ThreadTeam team(2);
  Head head({10, 6, 13}, DType::f32);
  const HeadResults before(head, team);
  for (std::int64_t i = 0; i < 6; ++i) head.h.set(4 * 6 + i, 1e3);  // token 4 is masked
  const HeadResults after(head, team);
  EXPECT_TRUE(same_bits(before.loss, after.loss));
  for (std::int64_t i = 0; i < 6; ++i) EXPECT_EQ(after.dh.get(4 * 6 + i), 0.0);
  EXPECT_TRUE(same_bits(before.dw, after.dw));
  EXPECT_GT(before.loss.get(1), 0.0);
  for (std::int64_t token = 0; token < 10; ++token) head.targets.set(token, -1);
  const HeadResults none(head, team);
  EXPECT_EQ(none.loss.get(0), 0.0);
  EXPECT_TRUE(same_bits(none.dw, Data(DType::f32, {13, 6}, 9)));
}

TEST(LinearCrossEntropy, StandsLargeLogits) {
  ThreadTeam team(1);
  Head head({3, 1, 5}, DType::f32);
  head.options.z_loss = 0;
  for (std::int64_t token = 0; token < 3; ++token) head.h.set(token, 1000.0), head.targets.set(token, 2);
  const double w[] = {1, 0, 2, -3, 2};
  for (std::int64_t i = 0; i < 5; ++i) head.w.set(i, w[i]);
  EXPECT_NEAR(HeadResults(head, team).loss.get(0), 3 * std::log(2.0), 1e-6);
}

TEST(LinearCrossEntropy, NamesATargetOutsideTheVocabulary) {
  ThreadTeam team(1);
  Head head({6, 4, 9}, DType::f32);
  head.targets.set(3, 9);
  try {
    HeadResults{head, team};
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::data);
    EXPECT_NE(std::string(error.what()).find("target 9 at position 3"), std::string::npos) << error.what();
  }
}

TEST(LinearCrossEntropy, AllocatesNothingLargeOnceAShapeIsKnown) {
  MILLRACE_CPU_ONLY();
  ThreadTeam team(2);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Head head({64, 32, 1500}, dtype);
    HeadResults results(head, team);
    const ExecutionContext context = fast(team);
    const Buffer scratch =
        scratch_of(context, linear_cross_entropy_scratch_bytes((*head.h).shape, (*head.w).shape, dtype, head.options, context.processor()));
    const auto before = testing::large_allocations();
    linear_cross_entropy_forward(context, *head.h, *head.w, *head.targets, head.options, *results.loss, *results.log_sum_exp,
                                 scratch.bytes());
    linear_cross_entropy_input_gradient(context, *head.h, *head.w, *head.targets, *head.g, head.options, *results.dh, *results.loss,
                                        *results.log_sum_exp, scratch.bytes());
    linear_cross_entropy_weight_gradient(context, *head.h, *head.w, *head.targets, *results.log_sum_exp, *head.g, head.options, *results.dw,
                                         scratch.bytes());
    linear_cross_entropy_gradients(context, *head.h, *head.w, *head.targets, *head.g, head.options, *results.dh, *results.loss,
                                   *results.log_sum_exp, *results.dw, scratch.bytes());
    EXPECT_EQ(testing::large_allocations(), before);
  }
}

TEST(LinearCrossEntropy, AGrowingMaximumMultipliesWhatWasSummed) {
  // Four tiles, each with logits far above the previous tile's: in the end only the last tile's count, and the target's, in the
  // first tile, does not count at all.
  constexpr std::int64_t vocabulary = 4000, width = 3;
  ThreadTeam team(2), one(1);
  for (const std::int64_t target : {std::int64_t{5}, vocabulary - 1}) {
    Head head({6, width, vocabulary}, DType::f32, {});
    for (std::int64_t token = 0; token < 6; ++token) {
      head.targets.set(token, static_cast<double>(target));
      head.h.set(token * width, 1);
    }
    for (std::int64_t entry = 0; entry < vocabulary; ++entry) head.w.set(entry * width, 0.01 * static_cast<double>(entry));
    const HeadResults fast(head, team), reference(head, one, Implementation::reference);
    const HeadTruth truth(head, Data(DType::f32, {vocabulary, width}, 9), false);
    for (const HeadResults* results : {&fast, &reference}) {
      EXPECT_TRUE(lies_within(results->dh, [&](std::int64_t i) { return truth.dh(i); })) << target;
      EXPECT_TRUE(lies_within(results->dw, [&](std::int64_t i) { return truth.dw(i); })) << target;
      EXPECT_TRUE(lies_within(results->loss, [&](std::int64_t i) { return truth.loss(i); })) << target;
    }
    EXPECT_TRUE(same_bits(fast.loss, fast.forward_loss));
  }
}

TEST(LinearCrossEntropy, ASureTokensGradientKeepsItsDigits) {
  // softmax(target) is 1 − 2e-6: the target's part and the onehot's are equal to six digits, and with an lse in fp32 their
  // difference would have half a digit.
  ThreadTeam team(1);
  Head head({1, 2, 3}, DType::f32, {});
  head.targets.set(0, 1);
  const double h[] = {1, 0}, w[] = {0, 1, 13.8, 1, 0, 1};
  for (std::int64_t i = 0; i < 2; ++i) head.h.set(i, h[i]);
  for (std::int64_t i = 0; i < 6; ++i) head.w.set(i, w[i]);
  const double others = 2 * std::exp(-static_cast<double>(static_cast<float>(13.8)));
  EXPECT_NEAR(HeadResults(head, team).dh.get(0) / (0.25 * -13.8 * others / (1 + others)), 1, 1e-2);
}

TEST(LinearCrossEntropy, EveryInstructionSetGivesTheSameLoops) {
  MILLRACE_CPU_ONLY();
  const Data logits(DType::f32, {101}, 4, 30.0F);
  float maximum = -INFINITY;
  double sum = 0;
  cpu::baseline::cross_entropy_take((*logits).as<float>(), 101, maximum, sum);
  double wanted = 0;
  for (std::int64_t i = 0; i < 101; ++i) wanted += std::exp(logits.get(i) - static_cast<double>(maximum));
  EXPECT_NEAR(sum, wanted, 1e-6 * wanted);
  const auto check = [&](cpu::cross_entropy_take_signature* take) {
    float other_maximum = -INFINITY;
    double other_sum = 0;
    take((*logits).as<float>(), 101, other_maximum, other_sum);
    EXPECT_EQ(other_maximum, maximum);
    EXPECT_EQ(other_sum, sum);
  };
  if (cpu_features().isa >= Isa::avx2) check(&cpu::avx2::cross_entropy_take);
  if (cpu_features().isa >= Isa::avx512) check(&cpu::avx512::cross_entropy_take);

  const auto weigh = [&](cpu::cross_entropy_weigh_signature* loop, const cpu::CrossEntropySlope& slope, std::int64_t target) {
    Data tile = logits;
    float top = -INFINITY;
    double weights = 0;
    EXPECT_EQ(loop((*tile).as<float>(), 101, slope, target, top, weights, nullptr), 0.0F);
    EXPECT_EQ(top, maximum);
    EXPECT_EQ(weights, sum);
    return tile;
  };
  for (const std::int64_t target : {-1, 0, 37, 100})
    for (const cpu::CrossEntropySlope& slope : {cpu::CrossEntropySlope{}, {0.5F, 50.0F}}) {
      const Data plain = weigh(&cpu::baseline::cross_entropy_weigh, slope, target);
      for (std::int64_t i = 0; i < 101; ++i) {
        const double share = slope.soft_cap > 0 ? logits.get(i) / slope.soft_cap : 0;
        const double one = std::exp(logits.get(i) - static_cast<double>(maximum)) * slope.scale * (1 - share * share);
        EXPECT_NEAR(plain.get(i), i == target ? 0 : one, 1e-6);
      }
      if (cpu_features().isa >= Isa::avx2) {
        EXPECT_TRUE(same_bits(weigh(&cpu::avx2::cross_entropy_weigh, slope, target), plain));
      }
      if (cpu_features().isa >= Isa::avx512) {
        EXPECT_TRUE(same_bits(weigh(&cpu::avx512::cross_entropy_weigh, slope, target), plain));
      }
    }
}

// The logits are spread so that their exponentials have every size, down to denormal numbers.
TEST(LinearCrossEntropy, EveryInstructionSetHasTheSameExponentials) {
  MILLRACE_CPU_ONLY();
  constexpr std::int64_t count = 1 << 16;
  const auto exponentials = [&](cpu::cross_entropy_gradient_signature* loop) {
    Data row(DType::f32, {count});
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t bits = i << 16 | 0x5a5a;
      std::memcpy((*row).as<float>() + i, &bits, sizeof bits);
    }
    loop((*row).as<float>(), count, {.g = 1}, nullptr);
    return row;
  };
  const Data baseline = exponentials(&cpu::baseline::cross_entropy_gradient);
  if (cpu_features().isa >= Isa::avx2) {
    EXPECT_TRUE(same_bits(exponentials(&cpu::avx2::cross_entropy_gradient), baseline));
  }
  if (cpu_features().isa >= Isa::avx512) {
    EXPECT_TRUE(same_bits(exponentials(&cpu::avx512::cross_entropy_gradient), baseline));
  }
}

}  // namespace
}  // namespace millrace::kernels
