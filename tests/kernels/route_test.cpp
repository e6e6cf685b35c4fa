#include "kernels/route.hpp"

#include <array>
#include <limits>
#include <set>
#include <string>

#include "tests/kernels/fixture.hpp"
#include "tests/kernels/route_truth.hpp"
#include "tests/support/expect_error.hpp"

namespace millrace::kernels::testing {
namespace {

struct RouteCase {
  const char* name;
  std::int64_t experts;
  RouteOptions options;
};

/// The published rules, and options that none of them has.
const std::vector<RouteCase>& cases() {
  using enum RouterScore;
  static const std::vector<RouteCase> list{
      {"Mixtral", 8, {.experts_per_token = 2, .normalise = true}},
      {"Qwen3-MoE", 128, {.experts_per_token = 8, .normalise = true}},
      {"Qwen3-MoE, not normalised", 128, {.experts_per_token = 8}},
      {"GPT-OSS", 32, {.experts_per_token = 4, .score = logit, .bias = RouterBias::score, .weight = RouterWeight::softmax}},
      {"Llama 4", 16, {.score = logit, .weight = RouterWeight::sigmoid}},
      {"DeepSeek-V3",
       32,
       {.experts_per_token = 6,
        .score = sigmoid,
        .bias = RouterBias::choice,
        .groups = 4,
        .kept_groups = 2,
        .normalise = true,
        .sum_epsilon = 1e-20F,
        .scale = 2.5F}},
      {"DeepSeek-V2", 20, {.experts_per_token = 6, .scale = 16}},
      {"best of each group", 33, {.experts_per_token = 5, .groups = 3, .kept_groups = 2, .group_best = 1, .scale = 16}},
      {"groups of one", 5, {.experts_per_token = 2, .score = logit, .groups = 5, .kept_groups = 3, .group_best = 1}},
      {"softplus",
       24,
       {.experts_per_token = 6,
        .score = sqrt_softplus,
        .bias = RouterBias::choice,
        .normalise = true,
        .sum_epsilon = 1e-20F,
        .scale = 1.5F}},
      {"sigmoid without epsilon", 9, {.experts_per_token = 3, .score = sigmoid, .normalise = true}},
      {"softplus without epsilon", 9, {.experts_per_token = 3, .score = sqrt_softplus, .normalise = true}},
      {"weight sigmoid without epsilon", 9, {.experts_per_token = 3, .score = logit, .weight = RouterWeight::sigmoid, .normalise = true}},
      {"one expert", 1, {.score = sigmoid}},
      {"all experts", 17, {.experts_per_token = 17, .normalise = true, .sum_epsilon = 0.25F}},
      {"biased softmax",
       19,
       {.experts_per_token = 3, .bias = RouterBias::score, .weight = RouterWeight::sigmoid, .normalise = true, .sum_epsilon = 0.25F}},
      {"biased sigmoid", 9, {.experts_per_token = 4, .score = sigmoid, .bias = RouterBias::score, .scale = 0.3F}},
      {"biased softplus",
       40,
       {.experts_per_token = 18,
        .score = sqrt_softplus,
        .bias = RouterBias::score,
        .groups = 2,
        .kept_groups = 1,
        .weight = RouterWeight::softmax}},
      {"many experts", max_experts, {.experts_per_token = 3, .normalise = true}},
  };
  return list;
}

bool has_bias(const RouteCase& test) { return test.options.bias != RouterBias::none; }

/// Numbers from −4 to 4 that lie far from each other, in another order for each token.
Data spaced(DType dtype, std::int64_t tokens, std::int64_t experts) {
  Data logits(dtype, {tokens, experts});
  std::uint64_t state = 7;
  for (std::int64_t t = 0; t < tokens; ++t) {
    std::vector<std::int64_t> order;
    for (std::int64_t e = 0; e < experts; ++e) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      order.insert(order.begin() + static_cast<std::ptrdiff_t>((state >> 33) % (order.size() + 1)), e);
    }
    for (std::int64_t e = 0; e < experts; ++e)
      logits.set(t * experts + order[static_cast<std::size_t>(e)],
                 experts == 1 ? 0.7 : 8.0 * static_cast<double>(e) / static_cast<double>(experts - 1) - 4);
  }
  return logits;
}

struct RouteResults {
  RouteResults(const ExecutionContext& context, const RouteCase& rule, const Data& given)
      : test(rule),
        tokens((*given).shape[0]),
        logits(given),
        bias(DType::f32, {test.experts}, 5, 0.5F),
        d_weights(DType::f32, {tokens, test.options.experts_per_token}, 6),
        weights(DType::f32, {tokens, test.options.experts_per_token}),
        experts(DType::i32, {tokens, test.options.experts_per_token}),
        d_logits((*logits).dtype, {tokens, test.experts}),
        d_bias(DType::f32, {test.experts}, 8) {
    run(context);
  }
  void run(const ExecutionContext& context) {
    const Tensor& b = *bias;
    const Tensor* const operand = has_bias(test) ? &b : nullptr;
    route(context, *logits, operand, test.options, *weights, *experts);
    route_input_gradient(context, *d_weights, *logits, operand, *experts, test.options, *d_logits);
    if (test.options.bias == RouterBias::score) route_bias_gradient(context, *d_weights, *logits, b, *experts, test.options, *d_bias);
    wait();
  }
  [[nodiscard]] std::int64_t chosen() const { return test.options.experts_per_token; }
  [[nodiscard]] std::vector<double> logits_of(std::int64_t token) const { return row(logits, token, test.experts); }
  [[nodiscard]] std::vector<double> d_weights_of(std::int64_t token) const { return row(d_weights, token, chosen()); }
  [[nodiscard]] std::vector<double> biases() const { return has_bias(test) ? row(bias, 0, test.experts) : std::vector<double>{}; }
  [[nodiscard]] std::vector<std::size_t> experts_of(std::int64_t token) const {
    const std::vector<double> found = row(experts, token, chosen());
    return {found.begin(), found.end()};
  }
  static std::vector<double> row(const Data& data, std::int64_t index, std::int64_t width) {
    std::vector<double> numbers;
    for (std::int64_t i = index * width; i < (index + 1) * width; ++i) numbers.push_back(data.get(i));
    return numbers;
  }

  RouteCase test;
  std::int64_t tokens;
  Data logits, bias, d_weights, weights, experts, d_logits, d_bias;
};

::testing::AssertionResult within(const Data& found, const Numbers& truth) {
  return lies_within(found, [&](std::int64_t i) {
    const Number exact = truth.at(static_cast<std::size_t>(i));
    return tests::around(exact.value, exact.error);
  });
}

void expect_truth(const RouteResults& found) {
  Numbers weights, d_logits, d_bias(static_cast<std::size_t>(found.test.experts));
  const Data before(DType::f32, {found.test.experts}, 8);
  for (std::size_t e = 0; e < d_bias.size(); ++e) d_bias[e] = exact(before.at(static_cast<std::int64_t>(e)));
  for (std::int64_t token = 0; token < found.tokens; ++token) {
    const RouteToken truth(found.logits_of(token), found.biases(), found.test.options);
    const auto experts = truth.choose();
    EXPECT_EQ(found.experts_of(token), experts) << "token " << token;
    const auto gradients = truth.gradients(experts, found.d_weights_of(token));
    for (const Number w : truth.weights(experts)) weights.push_back(w);
    d_logits.insert(d_logits.end(), gradients.logits.begin(), gradients.logits.end());
    for (std::size_t k = 0; k < experts.size(); ++k) d_bias[experts[k]] = d_bias[experts[k]] + gradients.scores[k];
  }
  EXPECT_TRUE(within(found.weights, weights));
  EXPECT_TRUE(within(found.d_logits, d_logits));
  EXPECT_TRUE(found.test.options.bias == RouterBias::score ? within(found.d_bias, d_bias) : same_bits(found.d_bias, before));
}

TEST(Route, MatchesReferenceForAnyThreadCount) {
  for (const RouteCase& test : cases())
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const std::int64_t tokens : {1, 37}) {
        if (test.experts == max_experts && tokens > 1) continue;
        SCOPED_TRACE(::testing::Message() << test.name << ", " << tokens << " tokens, " << to_string(dtype));
        ThreadTeam one(1);
        const Data logits = spaced(dtype, tokens, test.experts);
        const RouteResults expected(ExecutionContext(one, Implementation::reference), test, logits);
        const RouteResults found(fast(one), test, logits);
        EXPECT_TRUE(same_bits(found.experts, expected.experts));
        expect_truth(expected);
        expect_truth(found);
        for (const int threads : {2, 3}) {
          ThreadTeam team(threads);
          const RouteResults many(fast(team), test, logits);
          for (const auto member : {&RouteResults::weights, &RouteResults::experts, &RouteResults::d_logits, &RouteResults::d_bias})
            EXPECT_TRUE(same_bits(found.*member, many.*member));
        }
      }
}

/// The gradients that the kernels are compared with are slopes of the weights.
TEST(Route, GradientsAreSlopes) {
  for (const RouteCase& test : cases()) {
    if (test.experts == max_experts) continue;
    SCOPED_TRACE(test.name);
    ThreadTeam team(1);
    const RouteResults run(fast(team), test, spaced(DType::f32, 2, test.experts));
    for (std::int64_t token = 0; token < 2; ++token) {
      const auto experts = run.experts_of(token);
      const auto dw = run.d_weights_of(token);
      const auto logits = run.logits_of(token);
      const auto bias = run.biases();
      const auto gradients = RouteToken(logits, bias, test.options).gradients(experts, dw);
      // In double: the cubic part of the slope, times step²/6, is the larger error.
      constexpr double step = 1e-5, tolerance = 1e-7;
      const auto slope = [&](std::size_t e, bool of_bias) {
        const auto at = [&](double moved) {
          auto u = logits, b = bias;
          (of_bias ? b : u)[e] += moved;
          const Numbers weights = RouteToken(u, b, test.options).weights(experts);
          double sum = 0;
          for (std::size_t k = 0; k < weights.size(); ++k) sum += dw[k] * weights[k].value;
          return sum;
        };
        return (at(step) - at(-step)) / (2 * step);
      };
      for (std::size_t e = 0; e < logits.size(); ++e) EXPECT_NEAR(gradients.logits[e].value, slope(e, false), tolerance) << e;
      if (test.options.bias != RouterBias::score) continue;
      for (std::size_t k = 0; k < experts.size(); ++k) EXPECT_NEAR(gradients.scores[k].value, slope(experts[k], true), tolerance) << k;
    }
  }
}

/// The published rules in words of their own, at logits that can be followed by hand.
TEST(Route, FollowsThePublishedRules) {
  ThreadTeam team(1);
  constexpr double tolerance = 16 * tests::fp32_roundoff;
  for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
    const auto routed = [&](const RouteCase& test, const std::vector<double>& logits, const std::vector<double>& biases = {}) {
      Data u(DType::f32, {1, test.experts}), b(DType::f32, {test.experts});
      for (std::size_t e = 0; e < logits.size(); ++e) u.set(static_cast<std::int64_t>(e), logits[e]);
      for (std::size_t e = 0; e < biases.size(); ++e) b.set(static_cast<std::int64_t>(e), biases[e]);
      Data weights(DType::f32, {1, test.options.experts_per_token}), experts(DType::i32, {1, test.options.experts_per_token});
      const Tensor& bias = *b;
      route(stream_of(team, implementation), *u, has_bias(test) ? &bias : nullptr, test.options, *weights, *experts);
      return std::pair{RouteResults::row(experts, 0, test.options.experts_per_token),
                       RouteResults::row(weights, 0, test.options.experts_per_token)};
    };
    using Choice = std::vector<double>;
    const double e = std::exp(1.0);
    const auto sigma = [](double x) { return 1 / (1 + std::exp(-x)); };
    // Normalised shares are a softmax over the chosen two.
    auto [experts, weights] = routed({"", 4, {.experts_per_token = 2, .normalise = true}}, {1, 3, 2, 0});
    EXPECT_EQ(experts, (Choice{1, 2}));
    EXPECT_NEAR(weights[0], e / (1 + e), tolerance);
    EXPECT_NEAR(weights[1], 1 / (1 + e), tolerance);
    // Not normalised, they are shares among all.
    std::tie(experts, weights) = routed({"", 4, {.experts_per_token = 2}}, {1, 3, 2, 0});
    EXPECT_NEAR(weights[0], e * e * e / (1 + e + e * e + e * e * e), tolerance);
    // The bias makes expert 0 the best, and counts in its weight, or does not.
    RouteOptions open{.experts_per_token = 2, .score = RouterScore::logit, .bias = RouterBias::score, .weight = RouterWeight::softmax};
    std::tie(experts, weights) = routed({"", 3, open}, {0, 1, 0.5}, {2, 0, 0});
    EXPECT_EQ(experts, (Choice{0, 1}));
    EXPECT_NEAR(weights[0], e / (1 + e), tolerance);
    open.bias = RouterBias::choice;
    std::tie(experts, weights) = routed({"", 3, open}, {0, 1, 0.5}, {2, 0, 0});
    EXPECT_EQ(experts, (Choice{0, 1}));
    EXPECT_NEAR(weights[0], 1 / (1 + e), tolerance);
    // One expert, by the sigmoid of its logit.
    std::tie(experts, weights) = routed({"", 3, {.score = RouterScore::logit, .weight = RouterWeight::sigmoid}}, {-2, -1, -3});
    EXPECT_EQ(experts, (Choice{1}));
    EXPECT_NEAR(weights[0], sigma(-1), tolerance);
    // The best expert of all is in a group whose second best is bad.
    const RouteOptions grouped{.experts_per_token = 3,
                               .score = RouterScore::sigmoid,
                               .bias = RouterBias::choice,
                               .groups = 4,
                               .kept_groups = 2,
                               .normalise = true,
                               .sum_epsilon = 1e-20F,
                               .scale = 2.5F};
    std::tie(experts, weights) = routed({"", 8, grouped}, {9, -9, 1, 1.5, -1, -1, 2, 0.5}, {0, 0, 0, 0, 0.5, 0.5, 0, 0});
    // 1, 1.55, 1.54, 1.5: groups 1 and 2, and expert 3 after the biased experts.
    const double sum = sigma(1.5) + 2 * sigma(-1);
    EXPECT_EQ(experts, (Choice{3, 4, 5}));
    EXPECT_NEAR(weights[0], 2.5 * sigma(1.5) / sum, 2.5 * tolerance);
    EXPECT_NEAR(weights[1], 2.5 * sigma(-1) / sum, 2.5 * tolerance);
    // √(log(1 + eᵘ)).
    std::tie(experts, weights) = routed({"", 3, {.experts_per_token = 3, .score = RouterScore::sqrt_softplus}}, {-40, 0, 30});
    EXPECT_EQ(experts, (Choice{2, 1, 0}));
    EXPECT_NEAR(weights[0], std::sqrt(30), 8 * tolerance);
    EXPECT_NEAR(weights[1], std::sqrt(std::log(2)), tolerance);
    EXPECT_NEAR(weights[2], std::exp(-20), 1e-9 * tolerance);
  }
}

const std::array kBoth{Implementation::fast, Implementation::reference};

/// The experts that are chosen for one token without bias.
std::vector<std::size_t> chosen_of(Implementation implementation, const RouteOptions& options, const std::vector<double>& logits) {
  ThreadTeam team(1);
  Data u(DType::f32, {1, static_cast<std::int64_t>(logits.size())});
  for (std::size_t e = 0; e < logits.size(); ++e) u.set(static_cast<std::int64_t>(e), logits[e]);
  return RouteResults(stream_of(team, implementation), {"", u.elements(), options}, u).experts_of(0);
}

TEST(Route, AmongEqualsTheLowerIsBetter) {
  using Choice = std::vector<std::size_t>;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto logits = [](std::int64_t chosen, std::int64_t groups = 1, std::int64_t kept = 1, std::int64_t best = 1) {
    return RouteOptions{
        .experts_per_token = chosen, .score = RouterScore::logit, .groups = groups, .kept_groups = kept, .group_best = best};
  };
  for (const Implementation implementation : kBoth) {
    EXPECT_EQ(chosen_of(implementation, logits(2), {1, 2, 2, 2, 0}), (Choice{1, 2}));
    EXPECT_EQ(chosen_of(implementation, logits(3), {-0.0, 0.0, -0.0}), (Choice{0, 1, 2}));
    EXPECT_EQ(chosen_of(implementation, logits(2, 3, 1, 2), {0, 1, 3, 1, 1, 3}), (Choice{2, 3}));
    EXPECT_EQ(chosen_of(implementation, logits(4, 3, 2, 2), {0, 1, 3, 1, 1, 3}), (Choice{2, 5, 3, 4}));
    EXPECT_EQ(chosen_of(implementation, logits(2, 3, 2, 2), {3, 0, 3, 1, 0, 0}), (Choice{0, 2}));  // though group 1 is the better one
    // Experts of groups that are not kept are no choice, whatever is left.
    EXPECT_EQ(chosen_of(implementation, logits(2, 2, 1, 1), {4, 3, -infinity, 5}), (Choice{3, 2}));
    EXPECT_EQ(chosen_of(implementation, logits(2), {-infinity, -infinity, -infinity}), (Choice{0, 1}));
    std::vector<double> alike(100, 1.5);
    EXPECT_EQ(chosen_of(implementation, {.experts_per_token = 4}, alike), (Choice{0, 1, 2, 3}));
  }
}

TEST(Route, ATokenWhoseLogitsAreEqualHasTheFirstExpertsAndEqualWeights) {
  ThreadTeam team(1);
  for (const Implementation implementation : kBoth)
    for (const RouteCase& test : cases()) {
      SCOPED_TRACE(test.name);
      Data logits(DType::f32, {3, test.experts});
      for (std::int64_t i = 0; i < logits.elements(); ++i) logits.set(i, i / test.experts == 1 ? 0.25 : -3);
      RouteResults found(stream_of(team, implementation), test, logits);
      for (std::int64_t e = 0; e < test.experts; ++e) found.bias.set(e, 0);
      found.run(stream_of(team, implementation));
      for (std::int64_t i = 0; i < found.experts.elements(); ++i) {
        EXPECT_EQ(found.experts.get(i), static_cast<double>(i % found.chosen()));
        EXPECT_EQ(found.weights.get(i), found.weights.get(i / found.chosen() * found.chosen()));
      }
    }
}

void expect_experts(const RouteResults& found) {
  for (std::int64_t token = 0; token < found.tokens; ++token) {
    const auto experts = found.experts_of(token);
    EXPECT_EQ(std::set(experts.begin(), experts.end()).size(), experts.size()) << "token " << token;
    for (const std::size_t e : experts) EXPECT_LT(e, static_cast<std::size_t>(found.test.experts)) << "token " << token;
  }
}

TEST(Route, ANanAppearsInTheWeightsOfItsTokenAlone) {
  ThreadTeam team(1);
  for (const Implementation implementation : kBoth)
    for (const RouteCase& test : cases()) {
      SCOPED_TRACE(test.name);
      Data logits = spaced(DType::f32, 3, test.experts);
      const RouteResults clean(stream_of(team, implementation), test, logits);
      logits.set(test.experts + test.experts / 2, std::numeric_limits<double>::quiet_NaN());
      const RouteResults found(stream_of(team, implementation), test, logits);
      expect_experts(found);
      bool seen = false;
      for (std::int64_t i = 0; i < found.weights.elements(); ++i) {
        if (i / found.chosen() == 1) {
          seen = seen || std::isnan(found.weights.get(i));
        } else {
          EXPECT_EQ(found.weights.get(i), clean.weights.get(i)) << i;
        }
      }
      EXPECT_TRUE(seen);
      for (std::int64_t e = 0; e < test.experts; ++e) logits.set(test.experts + e, std::numeric_limits<double>::quiet_NaN());
      expect_experts(RouteResults(stream_of(team, implementation), test, logits));
    }
}

TEST(Route, ExtremeLogitsHaveWeightsAndGradients) {
  ThreadTeam team(1);
  for (const Implementation implementation : kBoth)
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const RouteCase& test : cases()) {
        SCOPED_TRACE(test.name);
        Data logits(dtype, {4, test.experts});
        for (std::int64_t e = 0; e < test.experts; ++e) {
          logits.set(e, 1e4);
          logits.set(test.experts + e, -1e4);
          logits.set(2 * test.experts + e, e % 2 == 0 ? 1e4 : -1e4);
          logits.set(3 * test.experts + e, e % 3 == 0 ? -1e4 : e % 3 == 1 ? 1e4 : 0.5);
        }
        const RouteResults found(stream_of(team, implementation), test, logits);
        expect_experts(found);
        for (const Data* data : {&found.weights, &found.d_logits, &found.d_bias})
          for (std::int64_t i = 0; i < data->elements(); ++i) ASSERT_TRUE(std::isfinite(data->get(i))) << i;
      }
}

/// Weights whose sum is below min_weight_sum are not divided by it, and one that is just above is. The sigmoids of −200 are 0 in fp32.
TEST(Route, ASumNextToZeroIsNoDivisor) {
  ThreadTeam team(1);
  Data logits(DType::f32, {3, 4});
  for (std::int64_t e = 0; e < 4; ++e) {
    const double last = static_cast<double>(e) / 4;
    logits.set(e, -44 + last);
    logits.set(4 + e, -50 + last);
    logits.set(8 + e, -200);
  }
  for (const Implementation implementation : kBoth)
    for (const RouteCase& test :
         {RouteCase{"", 4, {.experts_per_token = 2, .score = RouterScore::sigmoid, .normalise = true}},
          {"", 4, {.experts_per_token = 2, .score = RouterScore::logit, .weight = RouterWeight::sigmoid, .normalise = true}}}) {
      const RouteResults found(stream_of(team, implementation), test, logits);
      expect_truth(found);
      EXPECT_NEAR(found.weights.get(0) + found.weights.get(1), 1, 1e-6);
      for (std::int64_t i = 2; i < 6; ++i) EXPECT_LT(found.weights.get(i), 1e-20) << i;
    }
}

TEST(Route, GivenExpertsAreWeighedAndNotChosen) {
  ThreadTeam team(1);
  const std::vector<std::size_t> given{6, 1, 4};  // neither the best ones nor in their order
  for (const Implementation implementation : kBoth)
    for (const bool groups : {false, true}) {
      const ExecutionContext context = stream_of(team, implementation);
      RouteOptions options{.experts_per_token = 3, .normalise = true, .scale = 2, .given = true};
      if (groups) options.groups = 4, options.kept_groups = 2;
      const Data logits = spaced(DType::f32, 2, 8);
      Data weights(DType::f32, {2, 3}), experts(DType::i32, {2, 3});
      for (std::int64_t i = 0; i < 6; ++i) experts.set(i, static_cast<double>(given[static_cast<std::size_t>(i % 3)]));
      const Data before(experts);
      route(context, *logits, nullptr, options, *weights, *experts);
      EXPECT_TRUE(same_bits(experts, before));
      Numbers truth;
      for (std::int64_t token = 0; token < 2; ++token)
        for (const Number w : RouteToken(RouteResults::row(logits, token, 8), {}, options).weights(given)) truth.push_back(w);
      EXPECT_TRUE(within(weights, truth));
    }
}

TEST(Route, NamesAGivenExpertThatDoesNotExist) {
  ThreadTeam team(1);
  const Data logits = spaced(DType::f32, 2, 8), weights(DType::f32, {2, 3});
  for (const int expert : {8, -1}) {
    Data experts(DType::i32, {2, 3});
    experts.set(4, expert);
    tests::expect_error(
        [&] {
          route(fast(team), *logits, nullptr, {.experts_per_token = 3, .given = true}, *weights, *experts);
          wait();
        },
        ExitCode::internal,
        {fmt::format("[kernels.{}] expert {} at position 4, expected 0 to 7", on_device() ? "expert_rows" : "route", expert)});
  }
}

/// Where eᵘ is nothing beside 1, and where it is beyond fp32: the function is eᵘᐟ² or √u.
TEST(Route, SqrtSoftplusAtTheEnds) {
  ThreadTeam team(1);
  const double ends[] = {-100, -60, -20.5, -19.5, 0, 19.5, 20.5, 95};
  Data logits(DType::f32, {1, 8});
  for (std::int64_t e = 0; e < 8; ++e) logits.set(e, ends[e]);
  for (const Implementation implementation : kBoth)
    expect_truth(
        RouteResults(stream_of(team, implementation), {"", 8, {.experts_per_token = 8, .score = RouterScore::sqrt_softplus}}, logits));
}

TEST(Route, AllocatesNothingAndTakesNoTokens) {
  for (const RouteCase& test : cases()) {
    ThreadTeam team(1);
    const RouteResults none(fast(team), test, Data(DType::f32, {0, test.experts}));
    EXPECT_TRUE(same_bits(none.d_bias, Data(DType::f32, {test.experts}, 8)));
    if (on_device()) continue;
    RouteResults some(fast(team), test, spaced(DType::bf16, 3, test.experts));
    const auto before = large_allocations();
    some.run(fast(team));
    EXPECT_EQ(large_allocations(), before) << test.name;
  }
}

TEST(Route, RefusesOptionsThatDoNotFit) {
  const auto expect_refused = [](std::int64_t experts, const RouteOptions& options, const std::vector<std::string>& words) {
    ThreadTeam team(1);
    Data logits(DType::f32, {2, experts}), bias(DType::f32, {experts});
    Data weights(DType::f32, {2, std::max<std::int64_t>(options.experts_per_token, 0)}), chosen(DType::i32, (*weights).shape);
    tests::expect_error([&] { route(fast(team), *logits, nullptr, options, *weights, *chosen); }, ExitCode::config, words);
    tests::expect_error([&] { route_input_gradient(fast(team), *weights, *logits, nullptr, *chosen, options, *logits); }, ExitCode::config,
                        words);
  };
  expect_refused(0, {}, {"kernels.route", "0 experts", "1 to 4096"});
  expect_refused(max_experts + 1, {}, {"4097 experts", "1 to 4096"});
  expect_refused(8, {.experts_per_token = 0}, {"0 experts per token", "1 to 8"});
  expect_refused(8, {.experts_per_token = 9}, {"9 experts per token", "1 to 8"});
  expect_refused(8, {.groups = 0}, {"0 groups", "1 to 8"});
  expect_refused(8, {.groups = 9}, {"9 groups", "1 to 8"});
  expect_refused(8, {.groups = 3}, {"8 experts in 3 groups", "divides"});
  expect_refused(8, {.groups = 4, .kept_groups = 0}, {"0 groups to choose", "1 to 4"});
  expect_refused(8, {.groups = 4, .kept_groups = 5}, {"5 groups to choose", "1 to 4"});
  expect_refused(8, {.experts_per_token = 5, .groups = 4, .kept_groups = 2}, {"5 experts per token", "1 to 4"});
  expect_refused(8, {.groups = 4, .group_best = 0}, {"0 best experts", "1 to 2"});
  expect_refused(8, {.groups = 4, .group_best = 3}, {"3 best experts", "1 to 2"});
  check_route_options("here", 8, {.group_best = 99});  // means nothing without groups
}

TEST(Route, RefusesOtherOperands) {
  ThreadTeam team(1);
  const ExecutionContext context = fast(team);
  const RouteOptions plain{.experts_per_token = 2}, biased{.experts_per_token = 2, .bias = RouterBias::score};
  const Data logits(DType::f32, {3, 8}), half(DType::bf16, {3, 8}), flat(DType::f32, {24}), bias(DType::f32, {8}), wide(DType::f32, {9});
  const Data weights(DType::f32, {3, 2}), other(DType::f32, {3, 3}), experts(DType::i32, {3, 2}), fewer(DType::i32, {2, 2});
  const Data half_bias(DType::bf16, {8}), half_weights(DType::bf16, {3, 2});
  const auto expect_refused = [](auto&& call) { EXPECT_EQ(thrown(call), static_cast<int>(ExitCode::internal)); };
  const auto forward = [&](const Data& u, const Data* b, const RouteOptions& options, const Data& w, const Data& e) {
    const Tensor operand = b == nullptr ? Tensor{} : **b;
    expect_refused([&] { route(context, *u, b == nullptr ? nullptr : &operand, options, *w, *e); });
  };
  forward(flat, nullptr, plain, weights, experts);
  forward(experts, nullptr, plain, weights, experts);
  forward(logits, &bias, plain, weights, experts);
  forward(logits, nullptr, biased, weights, experts);
  forward(logits, &wide, biased, weights, experts);
  forward(logits, &half_bias, biased, weights, experts);
  forward(logits, nullptr, plain, other, experts);
  forward(logits, nullptr, plain, half_weights, experts);
  forward(logits, nullptr, plain, weights, fewer);
  forward(logits, nullptr, plain, weights, weights);
  tests::expect_error([&] { route(context, *logits, nullptr, biased, *weights, *experts); }, ExitCode::internal, {"no bias", "one [E]"});
  const auto backward = [&](const Data& dw, const Data& u, const Data& e, const Data& du) {
    expect_refused([&] { route_input_gradient(context, *dw, *u, nullptr, *e, plain, *du); });
  };
  backward(other, logits, experts, logits);
  backward(half_weights, logits, experts, logits);
  backward(weights, logits, fewer, logits);
  backward(weights, logits, experts, half);
  backward(weights, logits, experts, other);
  const auto bias_backward = [&](const Data& dw, const Data& b, const Data& e, const RouteOptions& options, const Data& db) {
    expect_refused([&] { route_bias_gradient(context, *dw, *logits, *b, *e, options, *db); });
  };
  bias_backward(weights, bias, experts, {.experts_per_token = 2, .bias = RouterBias::choice}, bias);
  bias_backward(other, bias, experts, biased, bias);
  bias_backward(weights, wide, experts, biased, bias);
  bias_backward(weights, bias, fewer, biased, bias);
  bias_backward(weights, bias, experts, biased, wide);
  bias_backward(weights, bias, experts, biased, half_bias);
}

}  // namespace
}  // namespace millrace::kernels::testing
