#include "kernels/router_z_loss.hpp"

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

constexpr float kRouterLogitScale = 4.0F;  // so that a token's logits differ by 8 at most
constexpr float kRouterLossScale = 0.25F;

struct ZLossResults {
  ZLossResults(const ExecutionContext& context, DType dtype, std::int64_t tokens, std::int64_t experts)
      : logits(dtype, {tokens, experts}, 1, kRouterLogitScale),
        scale(DType::f32, {1}),
        loss(DType::f64, {1}, 2),
        d_logits(dtype, {tokens, experts}, 3) {
    scale.set(0, kRouterLossScale);
    router_z_loss(context, *logits, *loss);
    router_z_loss_input_gradient(context, *logits, *scale, *d_logits);
    wait();
  }
  Data logits, scale, loss, d_logits;
};

/// The relative error of Σ exp(logit − maximum) in fp32. It is the error of the sum's logarithm too.
double sum_error(std::int64_t experts) { return exponential_error(kRouterLogitScale) + roundings(static_cast<double>(experts)); }

void expect_definition(const ZLossResults& at, std::int64_t tokens, std::int64_t experts) {
  std::vector<double> z(static_cast<std::size_t>(tokens));
  double loss = 0, error = 0;
  for (std::int64_t t = 0; t < tokens; ++t) {
    double sum = 0;
    for (std::int64_t e = 0; e < experts; ++e) sum += std::exp(at.logits.at(t * experts + e));
    const double own = z[static_cast<std::size_t>(t)] = std::log(sum);
    loss += own * own;
    error += (2 * std::abs(own) + sum_error(experts)) * sum_error(experts) + 0x1p-50 * own * own;
  }
  EXPECT_NEAR(at.loss.at(0), loss, error);
  EXPECT_TRUE(lies_within(at.d_logits, [&](std::int64_t i) {
    const double own = z[static_cast<std::size_t>(i / experts)], share = std::exp(at.logits.at(i) - own);
    const double factor = 2 * static_cast<double>(kRouterLossScale) * share;
    // The factor before the exponential and its product with it are rounded once each.
    return around(factor * own, std::abs(factor) * (sum_error(experts) * (1 + std::abs(own)) +
                                                    (exponential_error(kRouterLogitScale) + 2 * fp32_roundoff) * std::abs(own)));
  }));
}

TEST(RouterZLoss, MatchesReferenceForAnyThreadCount) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::int64_t tokens : {0, 1, 13, 1031})
      for (const std::int64_t experts : {1, 5, 16, 33, 70}) {
        if (tokens > 1000 && experts != 33) continue;
        SCOPED_TRACE(::testing::Message() << tokens << " tokens, " << experts << " experts, " << to_string(dtype));
        ThreadTeam one(1);
        const ZLossResults expected(ExecutionContext(one, Implementation::reference), dtype, tokens, experts),
            found(fast(one), dtype, tokens, experts);
        expect_definition(expected, tokens, experts);
        expect_definition(found, tokens, experts);
        for (const int threads : {2, 3}) {
          ThreadTeam team(threads);
          const ZLossResults many(fast(team), dtype, tokens, experts);
          EXPECT_TRUE(same_bits(found.loss, many.loss));
          EXPECT_TRUE(same_bits(found.d_logits, many.d_logits));
        }
      }
}

TEST(RouterZLoss, IsWhatItsFormulaSays) {
  ThreadTeam team(1);
  for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
    const ExecutionContext context = stream_of(team, implementation);
    Data logits(DType::f32, {2, 4}), loss(DType::f64, {1});
    for (std::int64_t e = 0; e < 4; ++e) logits.set(4 + e, -3);
    router_z_loss(context, *logits, *loss);
    const double z = std::log(4.0);
    EXPECT_NEAR(loss.get(0), z * z + (z - 3) * (z - 3), 1e-6);
  }
}

// Exponentials of such logits would be infinite, or all 0.
TEST(RouterZLoss, LargeLogitsHaveFiniteResults) {
  ThreadTeam team(1);
  for (const Implementation implementation : {Implementation::fast, Implementation::reference})
    for (const double size : {-1000.0, 1000.0}) {
      const ExecutionContext context = stream_of(team, implementation);
      Data logits(DType::f32, {1, 3}), loss(DType::f64, {1}), scale(DType::f32, {1}), d_logits(DType::f32, {1, 3});
      for (std::int64_t e = 0; e < 3; ++e) logits.set(e, size);
      scale.set(0, 1);
      router_z_loss(context, *logits, *loss);
      router_z_loss_input_gradient(context, *logits, *scale, *d_logits);
      const double z = size + std::log(3.0);
      EXPECT_NEAR(loss.get(0), z * z, 1e-6 * z * z);
      for (std::int64_t e = 0; e < 3; ++e) EXPECT_NEAR(d_logits.get(e), 2 * z / 3, 1e-6 * std::abs(z));
    }
}

TEST(RouterZLoss, GradientsAreSlopes) {
  ThreadTeam team(1);
  constexpr std::int64_t experts = 5;
  for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
    const ExecutionContext context = stream_of(team, implementation);
    ZLossResults run(context, DType::f32, 6, experts);
    constexpr double step = 0x1p-5;
    // Only one token's z changes: its error is 2|z| < 12 times the sum's. The third derivative of z² is below 6 + 2|z|.
    const double tolerance = static_cast<double>(kRouterLossScale) * (12 * sum_error(experts) / step + step * step / 6 * 18);
    const double largest = expect_slopes(run.logits, run.d_logits, kRouterLossScale, step, tolerance, [&] {
      router_z_loss(context, *run.logits, *run.loss);
      return run.loss.get(0);
    });
    EXPECT_GT(largest, 100 * tolerance);
  }
}

TEST(RouterZLoss, ANotANumberIsSeen) {
  ThreadTeam team(1);
  for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
    const ExecutionContext context = stream_of(team, implementation);
    ZLossResults run(context, DType::f32, 3, 5);
    run.logits.set(7, std::numeric_limits<double>::quiet_NaN());
    router_z_loss(context, *run.logits, *run.loss);
    router_z_loss_input_gradient(context, *run.logits, *run.scale, *run.d_logits);
    EXPECT_TRUE(std::isnan(run.loss.get(0)));
    for (std::int64_t i = 0; i < 15; ++i) EXPECT_EQ(std::isnan(run.d_logits.get(i)), i / 5 == 1) << i;
  }
}

TEST(RouterZLoss, RefusesOtherShapes) {
  ThreadTeam team(1);
  Data logits(DType::f32, {4, 8}), loss(DType::f64, {1}), two(DType::f64, {2}), scale(DType::f32, {1}), half(DType::bf16, {4, 8}),
      numbers(DType::i32, {4, 8}), vector(DType::f32, {4});
  constexpr int internal = static_cast<int>(ExitCode::internal);
  EXPECT_EQ(thrown([&] { router_z_loss(fast(team), *vector, *loss); }), internal);
  EXPECT_EQ(thrown([&] { router_z_loss(fast(team), *numbers, *loss); }), internal);
  EXPECT_EQ(thrown([&] { router_z_loss(fast(team), *logits, *two); }), internal);
  EXPECT_EQ(thrown([&] { router_z_loss_input_gradient(fast(team), *logits, *scale, *half); }), internal);
  EXPECT_EQ(thrown([&] { router_z_loss_input_gradient(fast(team), *logits, *loss, *logits); }), internal);
  EXPECT_EQ(thrown([&] { router_z_loss_input_gradient(fast(team), *vector, *scale, *vector); }), internal);
}

}  // namespace
}  // namespace millrace::kernels::testing
