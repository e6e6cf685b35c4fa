#include "kernels/context_gate.hpp"

#include <cmath>
#include <vector>

#include "tests/kernels/slopes.hpp"

namespace millrace::kernels::testing {
namespace {

using tests::around;
using tests::roundings;

struct GatedResults {
  GatedResults(const ExecutionContext& context, DType dtype, std::int64_t tokens, std::int64_t width, std::int64_t k)
      : q(dtype, {tokens, k * width}, 51),
        keys(dtype, {tokens, k * width}, 52),
        v(dtype, {tokens, width}, 53),
        dy(dtype, {tokens, k * width}, 54),
        z(DType::f32, {tokens, k}),
        y(dtype, {tokens, k * width}),
        dq(dtype, {tokens, k * width}),
        d_keys(dtype, {tokens, k * width}),
        dv(dtype, {tokens, width}) {
    run(context);
    context_gate_gradient(context, *dy, *q, *keys, *v, *z, *dq, *d_keys, *dv);
    wait();
  }
  void run(const ExecutionContext& context) { context_gate_forward(context, *q, *keys, *v, *z, *y); }
  Data q, keys, v, dy, z, y, dq, d_keys, dv;
};

double true_gate(double z) { return 1 / (1 + std::exp(-(z > 0 ? 1 : -1) * std::sqrt(std::max(std::abs(z), 1e-6)))); }

/// Every result is checked against its own operands: y and the gradients against the z that was written. A gate is within twenty roundings,
/// of which the exponential is four.
void expect_gate(const GatedResults& at) {
  const std::int64_t width = (*at.v).shape[1], k = (*at.q).shape[1] / width;
  const auto depth = static_cast<double>(width), root = std::sqrt(depth);
  const auto product = [&](const Data& a, std::int64_t a_row, const Data& b, std::int64_t b_row, double& size) {
    double sum = 0;
    size = 0;
    for (std::int64_t d = 0; d < width; ++d) {
      const double term = a.at(a_row * width + d) * b.at(b_row * width + d);
      sum += term;
      size += std::abs(term);
    }
    return sum;
  };
  EXPECT_TRUE(lies_within(at.z, [&](std::int64_t row) {
    double size = 0;
    const double sum = product(at.q, row, at.keys, row, size);
    return around(sum / root, roundings(depth + 3) * size / root);
  }));
  EXPECT_TRUE(lies_within(at.y, [&](std::int64_t i) {
    const double exact = true_gate(at.z.at(i / width)) * at.v.at(i / width / k * width + i % width);
    return around(exact, roundings(21) * std::abs(exact));
  }));
  std::vector<double> slopes, errors;  // of the score of each row, and how far each may be from that
  for (std::int64_t row = 0; row < at.z.elements(); ++row) {
    const double z = at.z.at(row), gate = true_gate(z);
    double size = 0;
    const double sum = product(at.dy, row, at.v, row / k, size);
    const double factor = std::abs(z) > 1e-6 ? gate * (1 - gate) / (2 * std::sqrt(std::abs(z))) / root : 0;
    slopes.push_back(factor * sum);
    errors.push_back(factor * roundings(depth + 48) * size);
  }
  const auto expect_scores = [&](const Data& found, const Data& other) {
    EXPECT_TRUE(lies_within(found, [&](std::int64_t i) {
      const auto row = static_cast<std::size_t>(i / width);
      const double exact = slopes[row] * other.at(i);
      return around(exact, errors[row] * std::abs(other.at(i)) + roundings(1) * std::abs(exact));
    }));
  };
  expect_scores(at.dq, at.keys);
  expect_scores(at.d_keys, at.q);
  EXPECT_TRUE(lies_within(at.dv, [&](std::int64_t i) {
    double sum = 0, size = 0;
    for (std::int64_t stream = 0; stream < k; ++stream) {
      const std::int64_t row = i / width * k + stream;
      const double term = true_gate(at.z.at(row)) * at.dy.at(row * width + i % width);
      sum += term;
      size += std::abs(term);
    }
    return around(sum, roundings(static_cast<double>(k) + 21) * size);
  }));
}

TEST(ContextGate, MatchesTheDefinitionForAnyThreadCount) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::int64_t tokens : {1, 5, 37})
      for (const std::int64_t width : {1, 16, 33, 300})
        for (const std::int64_t k : {1, 2, 4}) {
          SCOPED_TRACE(::testing::Message() << tokens << " tokens, " << k << " streams of " << width << " " << to_string(dtype));
          ThreadTeam one(1);
          const GatedResults wanted(ExecutionContext(one, Implementation::reference), dtype, tokens, width, k);
          const GatedResults found(fast(one), dtype, tokens, width, k);
          for (const GatedResults* results : {&wanted, &found}) expect_gate(*results);
          for (const int threads : {2, 3}) {
            ThreadTeam team(threads);
            const GatedResults many(fast(team), dtype, tokens, width, k);
            EXPECT_TRUE(same_bits(found.z, many.z));
            EXPECT_TRUE(same_bits(found.y, many.y));
            EXPECT_TRUE(same_bits(found.dq, many.dq));
            EXPECT_TRUE(same_bits(found.d_keys, many.d_keys));
            EXPECT_TRUE(same_bits(found.dv, many.dv));
          }
        }
}

/// Scores of zero leave the gate half open, and small ones have no slope.
TEST(ContextGate, IsFlatAroundZero) {
  ThreadTeam team(1);
  for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
    const ExecutionContext context = implementation == Implementation::fast ? fast(team) : ExecutionContext(team, implementation);
    Data q(DType::f32, {3, 1}), keys(DType::f32, {3, 1}), v(DType::f32, {3, 1}), dy(DType::f32, {3, 1}), z(DType::f32, {3, 1}),
        y(DType::f32, {3, 1}), dq(DType::f32, {3, 1}), d_keys(DType::f32, {3, 1}), dv(DType::f32, {3, 1});
    const double scores[] = {0, 1e-7, -4e-6};
    for (std::int64_t i = 0; i < 3; ++i) q.set(i, scores[i]), keys.set(i, 1), v.set(i, 8), dy.set(i, 1);
    context_gate_forward(context, *q, *keys, *v, *z, *y);
    context_gate_gradient(context, *dy, *q, *keys, *v, *z, *dq, *d_keys, *dv);
    wait();
    EXPECT_EQ(y.get(0), 4);
    EXPECT_NEAR(y.get(1), 8 / (1 + std::exp(-1e-3)), 1e-6);
    EXPECT_NEAR(y.get(2), 8 / (1 + std::exp(2e-3)), 1e-6);
    EXPECT_EQ(dq.get(0), 0);
    EXPECT_EQ(dq.get(1), 0);
    EXPECT_NEAR(dq.get(2), 8 * 0.25 / (2 * 2e-3), 1e-2);
  }
}

TEST(ContextGate, GradientsAreSlopes) {
  ThreadTeam team(1);
  const ExecutionContext context(team, Implementation::reference);
  GatedResults at(context, DType::f32, 4, 5, 3);
  // The root is steep where a score is small: all are moved away from zero.
  for (std::int64_t i = 0; i < at.q.elements(); ++i) at.q.set(i, at.keys.get(i) * (i / 5 % 2 == 0 ? 1.0 : -1.0) + 0.25 * at.q.get(i));
  at.run(context);
  context_gate_gradient(context, *at.dy, *at.q, *at.keys, *at.v, *at.z, *at.dq, *at.d_keys, *at.dv);
  const auto loss = [&] {
    at.run(context);
    double sum = 0;
    for (std::int64_t i = 0; i < at.y.elements(); ++i) sum += at.y.get(i) * at.dy.get(i);
    return sum;
  };
  for (std::int64_t row = 0; row < at.z.elements(); ++row) ASSERT_GT(std::abs(at.z.get(row)), 0.1) << row;
  EXPECT_GT(expect_slopes(at.q, at.dq, 1, 1e-2, 1e-3, loss), 0.02);
  EXPECT_GT(expect_slopes(at.keys, at.d_keys, 1, 1e-2, 1e-3, loss), 0.02);
  EXPECT_GT(expect_slopes(at.v, at.dv, 1, 1e-2, 1e-3, loss), 0.1);
}

TEST(ContextGate, RefusesWhatDoesNotFit) {
  ThreadTeam team(1);
  constexpr int internal = static_cast<int>(ExitCode::internal);
  const auto call = [&](const Shape& q, const Shape& v, const Shape& z) {
    Data queries(DType::f32, q), keys(DType::f32, q), values(DType::f32, v), scores(DType::f32, z), y(DType::f32, q);
    return thrown([&] { context_gate_forward(fast(team), *queries, *keys, *values, *scores, *y); });
  };
  EXPECT_EQ(call({3, 8}, {3, 4}, {3, 2}), -1);
  EXPECT_EQ(call({3, 8}, {3, 3}, {3, 2}), internal);
  EXPECT_EQ(call({3, 8}, {2, 4}, {3, 2}), internal);
  EXPECT_EQ(call({3, 8}, {3, 4}, {3, 1}), internal);
  EXPECT_EQ(call({3, 65}, {3, 1}, {3, 65}), internal);
}

}  // namespace
}  // namespace millrace::kernels::testing
