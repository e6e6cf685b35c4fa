#include "kernels/delta_gates.hpp"

#include <algorithm>
#include <cmath>

#include "tests/kernels/fixture.hpp"

namespace millrace::kernels::testing {
namespace {

using tests::around;
using tests::fp32_roundoff;
using tests::roundings;

struct GateResults {
  GateResults(const ExecutionContext& context, DType dtype, std::int64_t tokens, std::int64_t heads, DeltaGatesOptions options,
              float spread = 6)
      : round(options.round_decay),
        a(dtype, {tokens, heads}, 31, spread),
        b(dtype, {tokens, heads}, 32, spread),
        a_log(DType::f32, {heads}, 33, 2.0F),
        dt_bias(DType::f32, {heads}, 34, 2.0F),
        dg(DType::f32, {tokens, heads}, 35),
        dbeta(DType::f32, {tokens, heads}, 36),
        g(DType::f32, {tokens, heads}),
        beta(DType::f32, {tokens, heads}),
        da(dtype, {tokens, heads}),
        db(dtype, {tokens, heads}),
        d_a_log(DType::f32, {heads}, 37),
        d_dt_bias(DType::f32, {heads}, 38) {
    delta_gates_forward(context, *a, *b, *a_log, *dt_bias, options, *g, *beta);
    delta_gates_input_gradient(context, *dg, *dbeta, *a, *b, *a_log, *dt_bias, options, *da, *db);
    delta_gates_weight_gradient(context, *dg, *a, *a_log, *dt_bias, options, *d_a_log, *d_dt_bias);
    wait();
  }
  [[nodiscard]] std::int64_t heads() const { return (*a).shape[1]; }
  [[nodiscard]] double parameter(const Data& x, std::int64_t i) const {
    return round ? stored_as((*a).dtype, x.at(i % heads())) : x.at(i % heads());
  }
  /// a + dt_bias, rounded to fp32 as in a kernel: the sum is exact in double.
  [[nodiscard]] double shifted(std::int64_t i) const { return a.at(i) + parameter(dt_bias, i); }
  [[nodiscard]] double rate(std::int64_t i) const { return -std::exp(parameter(a_log, i)); }
  bool round;
  Data a, b, a_log, dt_bias, dg, dbeta, g, beta, da, db, d_a_log, d_dt_bias;
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

// Exponentials are within 2 ulp, logarithms within 4; an ulp is two roundoffs. The rounded sum a + dt_bias moves an exponential by its
// size.
double error_at(double x) { return (24 + std::abs(x)) * fp32_roundoff; }

void expect_gates(const GateResults& at) {
  const DType dtype = (*at.a).dtype;
  EXPECT_TRUE(lies_within(at.g, [&](std::int64_t i) {
    const double g = at.rate(i) * softplus(at.shifted(i));
    const auto range = around(g, std::abs(g) * error_at(at.shifted(i)));
    return at.round ? stored_as(dtype, range) : range;
  }));
  EXPECT_TRUE(lies_within(at.beta, [&](std::int64_t i) {
    const double beta = sigmoid(at.b.at(i));
    return stored_as(dtype, around(beta, beta * error_at(0)));
  }));
  EXPECT_TRUE(lies_within(at.da, [&](std::int64_t i) {
    const double da = at.rate(i) * sigmoid(at.shifted(i)) * at.dg.at(i);
    return around(da, std::abs(da) * error_at(at.shifted(i)));
  }));
  EXPECT_TRUE(lies_within(at.db, [&](std::int64_t i) {
    const double db = sigmoid(at.b.at(i)) * sigmoid(-at.b.at(i)) * at.dbeta.at(i);
    return around(db, std::abs(db) * error_at(0));
  }));
  const auto expect_sum = [&](const Data& found, std::uint64_t seed, auto&& term) {
    const Data start(DType::f32, {at.heads()}, seed);
    EXPECT_TRUE(lies_within(found, [&](std::int64_t h) {
      double sum = start.at(h), size = std::abs(sum), error = 0;
      for (std::int64_t i = h; i < at.a.elements(); i += at.heads()) {
        const double each = term(i);
        sum += each;
        size += std::abs(each);
        error += std::abs(each) * error_at(at.shifted(i));
      }
      return around(sum, error + roundings(static_cast<double>((*at.a).shape[0]) + 2) * size);
    }));
  };
  expect_sum(at.d_a_log, 37, [&](std::int64_t i) { return at.rate(i) * softplus(at.shifted(i)) * at.dg.at(i); });
  expect_sum(at.d_dt_bias, 38, [&](std::int64_t i) { return at.rate(i) * sigmoid(at.shifted(i)) * at.dg.at(i); });
}

TEST(DeltaGates, MatchTheFormulasForAnyThreadCount) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const bool round : {false, true})
      for (const std::int64_t tokens : {1, 67})
        for (const std::int64_t heads : {1, 16, 33}) {
          SCOPED_TRACE(::testing::Message() << tokens << " x " << heads << " " << to_string(dtype) << " rounded " << round);
          ThreadTeam one(1);
          expect_gates(GateResults(ExecutionContext(one, Implementation::reference), dtype, tokens, heads, {round}));
          const GateResults found(fast(one), dtype, tokens, heads, {round});
          expect_gates(found);
          for (const int threads : {2, 3}) {
            ThreadTeam team(threads);
            const GateResults many(fast(team), dtype, tokens, heads, {round});
            for (const auto member :
                 {&GateResults::g, &GateResults::beta, &GateResults::da, &GateResults::db, &GateResults::d_a_log, &GateResults::d_dt_bias})
              EXPECT_TRUE(same_bits(found.*member, many.*member));
          }
        }
}

// Far from 0 the decay is −exp(A_log)·a or nothing, and beta is 1 or nothing; no result is infinite or NaN.
TEST(DeltaGates, EndsOfTheRange) {
  ThreadTeam team(1);
  for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
    const GateResults at(stream_of(team, implementation), DType::f32, 3, 5, {}, 300.0F);
    expect_gates(GateResults(stream_of(team, implementation), DType::f32, 3, 5, {}, 20.0F));
    for (std::int64_t i = 0; i < at.g.elements(); ++i) {
      EXPECT_NEAR(at.g.at(i), at.rate(i) * softplus(at.shifted(i)), 1e-6 * std::abs(at.g.at(i)) + 1e-30) << i;
      EXPECT_NEAR(at.beta.at(i), sigmoid(at.b.at(i)), 1e-6) << i;
      EXPECT_NEAR(at.db.at(i), sigmoid(at.b.at(i)) * sigmoid(-at.b.at(i)) * at.dbeta.at(i), 1e-6) << i;
      EXPECT_TRUE(std::isfinite(at.da.at(i))) << i;
    }
  }
}

TEST(DeltaGates, GradientsAreSlopes) {
  ThreadTeam team(1);
  const ExecutionContext context(team, Implementation::reference);
  GateResults run(fast(team), DType::f32, 3, 4, {}, 3.0F);
  const Data log_start(DType::f32, {4}, 37), bias_start(DType::f32, {4}, 38);
  const auto objective = [&] {
    Data g(DType::f32, {3, 4}), beta(DType::f32, {3, 4});
    delta_gates_forward(context, *run.a, *run.b, *run.a_log, *run.dt_bias, {}, *g, *beta);
    double sum = 0;
    for (std::int64_t i = 0; i < g.elements(); ++i) sum += g.get(i) * run.dg.get(i) + beta.get(i) * run.dbeta.get(i);
    return sum;
  };
  const auto slope = [&](Data& operand, std::int64_t i) { return slope_along(operand, i, 0x1p-7, objective); };
  // Decays of up to 40 in fp32 over twice the step give 4e-4, a third derivative of up to 40 times its square over six the same.
  for (std::int64_t i = 0; i < 12; ++i) {
    EXPECT_NEAR(run.da.get(i), slope(run.a, i), 1e-3) << i;
    EXPECT_NEAR(run.db.get(i), slope(run.b, i), 1e-3) << i;
  }
  for (std::int64_t h = 0; h < 4; ++h) {
    EXPECT_NEAR(run.d_a_log.get(h) - log_start.get(h), slope(run.a_log, h), 2e-3) << h;
    EXPECT_NEAR(run.d_dt_bias.get(h) - bias_start.get(h), slope(run.dt_bias, h), 2e-3) << h;
  }
}

TEST(DeltaGates, RefuseWhatDoesNotFit) {
  ThreadTeam team(1);
  const GateResults good(fast(team), DType::f32, 4, 8, {});
  const Data wide(DType::f32, {9}), half(DType::bf16, {4, 8});
  constexpr int internal = static_cast<int>(ExitCode::internal);
  const auto call = [&](const Data& b, const Data& a_log, const Data& g) {
    return thrown([&] { delta_gates_forward(fast(team), *good.a, *b, *a_log, *good.dt_bias, {}, *g, *good.beta); });
  };
  EXPECT_EQ(call(good.b, good.a_log, good.g), -1);
  EXPECT_EQ(call(half, good.a_log, good.g), internal);
  EXPECT_EQ(call(good.b, wide, good.g), internal);
  EXPECT_EQ(call(good.b, good.a_log, half), internal);
  EXPECT_EQ(
      thrown([&] { delta_gates_weight_gradient(fast(team), *good.dg, *good.a, *good.a_log, *good.dt_bias, {}, *wide, *good.d_dt_bias); }),
      internal);
}

}  // namespace
}  // namespace millrace::kernels::testing
