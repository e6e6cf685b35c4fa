#include "kernels/balance_loss.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "tests/kernels/fixture.hpp"
#include "tests/kernels/slopes.hpp"

namespace millrace::kernels::testing {
namespace {

using tests::around;
using tests::fp32_roundoff;
using tests::roundings;

struct BalanceCase {
  std::int64_t sequences, length, chosen, experts;
  bool one_expert = false;  // all tokens choose the last ones
  [[nodiscard]] std::int64_t tokens() const { return sequences * length; }
};

void PrintTo(const BalanceCase& c, std::ostream* out) {
  *out << c.sequences << " sequences of " << c.length << ", " << c.chosen << " of " << c.experts << " experts " << c.one_expert;
}

const BalanceCase kBalanceCases[] = {{1, 1, 1, 1},     {1, 1, 3, 3},   {2, 3, 2, 5},        {3, 7, 2, 17},
                                     {1, 1031, 4, 33}, {2, 20, 1, 64}, {2, 9, 2, 70, true}, {1, 0, 2, 4}};

constexpr float kLogitScale = 4.0F;  // so that a token's logits differ by 8 at most
constexpr float kScale = 0.25F;

struct BalanceResults {
  BalanceResults(const ExecutionContext& context, DType dtype, const BalanceCase& c)
      : logits(dtype, {c.tokens(), c.experts}, 1, kLogitScale),
        experts(DType::i32, {c.tokens(), c.chosen}),
        scale(DType::f32, {1}),
        loss(DType::f64, {1}, 2),
        choices(DType::i32, {c.sequences, c.experts}, 3, 100),
        d_logits(dtype, {c.tokens(), c.experts}, 4) {
    for (std::int64_t i = 0; i < experts.elements(); ++i) {
      const std::int64_t t = i / c.chosen, k = i % c.chosen;
      experts.set(i, static_cast<double>(c.one_expert ? c.experts - 1 - k : (t * t + 3 * (t / 5) + k) % c.experts));
    }
    scale.set(0, kScale);
    balance_loss(context, *logits, *experts, {c.sequences}, *loss, *choices);
    balance_loss_input_gradient(context, *logits, *choices, *scale, {c.sequences}, *d_logits);
    wait();
  }
  Data logits, experts, scale, loss, choices, d_logits;
};

/// The definition in double.
struct BalanceTruth {
  explicit BalanceTruth(const BalanceCase& c, const BalanceResults& at) : choices(static_cast<std::size_t>(c.sequences * c.experts)), q() {
    for (std::int64_t i = 0; i < at.experts.elements(); ++i)
      ++choices[index(i / c.chosen / c.length * c.experts) + index(static_cast<std::int64_t>(at.experts.at(i)))];
    for (std::int64_t t = 0; t < c.tokens(); ++t) {
      double sum = 0;
      for (std::int64_t e = 0; e < c.experts; ++e) sum += std::exp(at.logits.at(t * c.experts + e));
      for (std::int64_t e = 0; e < c.experts; ++e) q.push_back(std::exp(at.logits.at(t * c.experts + e)) / sum);
    }
    const auto length = static_cast<double>(c.length), count = static_cast<double>(c.experts);
    for (std::int64_t b = 0; b < c.sequences; ++b)
      for (std::int64_t e = 0; e < c.experts && c.length > 0; ++e) {
        double mean = 0;
        for (std::int64_t s = 0; s < c.length; ++s) mean += q[index((b * c.length + s) * c.experts + e)] / length;
        loss += count * choices[index(b * c.experts + e)] / length * mean;
      }
  }
  static std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }
  std::vector<double> choices, q;
  double loss = 0;
};

/// Relative error of a mean probability: a quotient of two sums of exponentials over experts; choices are integers, so their product
/// with an exponential adds one rounding.
double mean_error(const BalanceCase& c) {
  const auto experts = static_cast<double>(c.experts);
  return 2 * exponential_error(kLogitScale) + roundings(experts) + roundings(experts + 1);
}

void expect_definition(const BalanceCase& c, const BalanceResults& at) {
  const BalanceTruth truth(c, at);
  for (std::int64_t i = 0; i < at.choices.elements(); ++i) ASSERT_EQ(at.choices.at(i), truth.choices[BalanceTruth::index(i)]) << i;
  EXPECT_NEAR(at.loss.at(0), truth.loss, mean_error(c) * truth.loss);
  const auto length = static_cast<double>(c.length);
  EXPECT_TRUE(lies_within(at.d_logits, [&](std::int64_t i) {
    const std::int64_t first = i / c.experts * c.experts, sequence = i / c.experts / c.length;
    const auto dq = [&](std::int64_t e) {
      return static_cast<double>(kScale * c.experts) * truth.choices[BalanceTruth::index(sequence * c.experts + e)] / (length * length);
    };
    double along = 0;
    for (std::int64_t e = 0; e < c.experts; ++e) along += dq(e) * truth.q[BalanceTruth::index(first + e)];
    const double q = truth.q[BalanceTruth::index(i)], own = dq(i % c.experts);
    // The mean's error, and the roundings of mean, factor, quotient, two products and the difference.
    const double share_error = 2 * exponential_error(kLogitScale) + roundings(static_cast<double>(c.experts)) + 5 * fp32_roundoff;
    return around(q * (own - along), q * (share_error * std::abs(own - along) + (mean_error(c) + 2 * fp32_roundoff) * along));
  }));
}

TEST(BalanceLoss, MatchesReferenceForAnyThreadCount) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const BalanceCase& c : kBalanceCases) {
      SCOPED_TRACE(::testing::PrintToString(c) + " " + std::string(to_string(dtype)));
      ThreadTeam one(1);
      const BalanceResults expected(ExecutionContext(one, Implementation::reference), dtype, c), found(fast(one), dtype, c);
      expect_definition(c, expected);
      expect_definition(c, found);
      for (const int threads : {2, 3}) {
        ThreadTeam team(threads);
        const BalanceResults many(fast(team), dtype, c);
        EXPECT_TRUE(same_bits(found.loss, many.loss));
        EXPECT_TRUE(same_bits(found.choices, many.choices));
        EXPECT_TRUE(same_bits(found.d_logits, many.d_logits));
      }
    }
}

/// Two experts, of which each token chooses one, with logits of 0 and log 3.
TEST(BalanceLoss, IsWhatItsFormulaSays) {
  ThreadTeam team(1);
  for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
    const ExecutionContext context = stream_of(team, implementation);
    Data logits(DType::f32, {4, 2}), experts(DType::i32, {4, 1}), choices(DType::i32, {2, 2}), loss(DType::f64, {1});
    for (const std::int64_t i : {0, 2, 4, 7}) logits.set(i, std::log(3.0));
    experts.set(3, 1);
    // The first sequence chooses expert 0 twice: f = (1, 0), m = (¾, ¼). The second each once: f = (½, ½), m = (½, ½).
    balance_loss(context, *logits, *experts, {2}, *loss, *choices);
    EXPECT_NEAR(loss.get(0), 2 * 0.75 + 2 * 0.5, 1e-6);
    // As one sequence: f = (¾, ¼), m = (⅝, ⅜).
    Data all(DType::i32, {1, 2});
    balance_loss(context, *logits, *experts, {1}, *loss, *all);
    EXPECT_NEAR(loss.get(0), 2 * (0.75 * 0.625 + 0.25 * 0.375), 1e-6);
    EXPECT_EQ(all.get(0), 3);
    EXPECT_EQ(all.get(1), 1);
  }
}

// Even probabilities or even choices give K per sequence.
TEST(BalanceLoss, IsTheNumberOfChoicesIfBalanced) {
  ThreadTeam team(1);
  Data logits(DType::f32, {12, 6}), experts(DType::i32, {12, 2}), choices(DType::i32, {3, 6}), loss(DType::f64, {1});
  for (std::int64_t i = 0; i < 24; ++i) experts.set(i, static_cast<double>(i % 2));
  balance_loss(fast(team), *logits, *experts, {3}, *loss, *choices);
  EXPECT_NEAR(loss.get(0), 3 * 2, 1e-5);
  Data skewed(DType::f32, {3, 6}, 5), each(DType::i32, {3, 2}), one(DType::i32, {1, 6});
  for (std::int64_t i = 0; i < 6; ++i) each.set(i, static_cast<double>(i));
  balance_loss(fast(team), *skewed, *each, {1}, *loss, *one);
  EXPECT_NEAR(loss.get(0), 2, 1e-5);
}

TEST(BalanceLoss, GradientsAreSlopes) {
  ThreadTeam team(1);
  const BalanceCase c{3, 7, 2, 5};
  for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
    const ExecutionContext context = stream_of(team, implementation);
    BalanceResults run(context, DType::f32, c);
    constexpr double step = 0x1p-5;
    // The error of the loss over the step; and the cubic part: the third derivative of a share is below 1, dq is 5 · 7 / 7² at most.
    const double tolerance = static_cast<double>(kScale) * (mean_error(c) * run.loss.get(0) / step + step * step / 6 * 5.0 / 7.0);
    const double largest = expect_slopes(run.logits, run.d_logits, kScale, step, tolerance, [&] {
      balance_loss(context, *run.logits, *run.experts, {c.sequences}, *run.loss, *run.choices);
      return run.loss.get(0);
    });
    EXPECT_GT(largest, 20 * tolerance);
  }
}

TEST(BalanceLoss, ANotANumberIsSeen) {
  ThreadTeam team(1);
  for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
    const ExecutionContext context = stream_of(team, implementation);
    BalanceResults run(context, DType::f32, {2, 3, 2, 5});
    run.logits.set(11, std::numeric_limits<double>::quiet_NaN());
    balance_loss(context, *run.logits, *run.experts, {2}, *run.loss, *run.choices);
    balance_loss_input_gradient(context, *run.logits, *run.choices, *run.scale, {2}, *run.d_logits);
    EXPECT_TRUE(std::isnan(run.loss.get(0)));
    for (std::int64_t i = 0; i < 30; ++i) EXPECT_EQ(std::isnan(run.d_logits.get(i)), i / 5 == 2) << i;
  }
}

TEST(BalanceLoss, RefusesOtherShapesAndExperts) {
  ThreadTeam team(1);
  const ExecutionContext context = fast(team);
  Data logits(DType::f32, {6, 4}), experts(DType::i32, {6, 2}), choices(DType::i32, {2, 4}), loss(DType::f64, {1}), scale(DType::f32, {1}),
      few(DType::i32, {5, 2}), half(DType::bf16, {6, 4}), all(DType::i32, {1, 4}), four(DType::i32, {4, 4}), sum(DType::f32, {1});
  constexpr int internal = static_cast<int>(ExitCode::internal);
  const auto forward = [&](const Data& u, const Data& chosen, std::int64_t sequences, const Data& into, const Data& count) {
    return thrown([&] { balance_loss(context, *u, *chosen, {sequences}, *into, *count); });
  };
  EXPECT_EQ(forward(logits, experts, 2, loss, choices), -1);
  EXPECT_EQ(forward(logits, experts, 4, loss, four), internal);  // six tokens
  EXPECT_EQ(forward(logits, experts, 0, loss, choices), internal);
  EXPECT_EQ(forward(logits, experts, 2, loss, all), internal);
  EXPECT_EQ(forward(logits, few, 2, loss, choices), internal);
  EXPECT_EQ(forward(logits, logits, 2, loss, choices), internal);
  EXPECT_EQ(forward(experts, experts, 2, loss, choices), internal);
  EXPECT_EQ(forward(logits, experts, 2, sum, choices), internal);
  EXPECT_EQ(thrown([&] { balance_loss_input_gradient(context, *logits, *choices, *scale, {2}, *half); }), internal);
  EXPECT_EQ(thrown([&] { balance_loss_input_gradient(context, *logits, *choices, *loss, {2}, *logits); }), internal);
  EXPECT_EQ(thrown([&] { balance_loss_input_gradient(context, *logits, *choices, *scale, {3}, *logits); }), internal);
  for (const int wrong : {4, -1}) {
    experts.set(7, wrong);
    try {
      balance_loss(context, *logits, *experts, {2}, *loss, *choices);
      wait();
      ADD_FAILURE() << "took expert " << wrong << " of 4";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::internal);
      EXPECT_EQ(std::string(error.what()),
                fmt::format("[kernels.{}] expert {} at position 7, expected 0 to 3", on_device() ? "expert_rows" : "balance_loss", wrong));
    }
  }
}

}  // namespace
}  // namespace millrace::kernels::testing
