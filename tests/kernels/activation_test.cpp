#include "kernels/activation.hpp"

#include <algorithm>
#include <limits>
#include <numbers>
#include <utility>
#include <vector>

#include "kernels/elementwise.hpp"
#include "tests/kernels/fixture.hpp"

namespace millrace::kernels::testing {
namespace {

constexpr auto kActivations = all_activations;

using tests::around;
using tests::fp32_roundoff;

/// A function and its derivative, in double, with error bounds for fp32 arithmetic.
struct Point {
  double value, slope, value_error, slope_error;
};

/// An exponential has an error of two units in the last place, tanh of four, and a unit is two roundoffs; each product, sum and
/// quotient adds one roundoff. Errors are relative to the terms: the terms of a derivative cancel near −x, and so do those of 1 +
/// tanh.
constexpr double u = fp32_roundoff;

/// The cumulative normal distribution at z, and its density, if z has the error z_error. The cumulative value is accurate to about
/// ten units; where it is denormal, its own spacing and that of its products count.
Point share_of(double z, double z_error) {
  constexpr double steps = 4 * std::numeric_limits<float>::denorm_min();
  const double share = 0.5 * std::erfc(-z / std::numbers::sqrt2), density = std::exp(-0.5 * z * z) / std::sqrt(2 * std::numbers::pi);
  return {share, density, 20 * u * share + density * (z_error + 2 * u * std::abs(z)) + steps,
          density * (8 * u + 2 * u * z * z + std::abs(z) * z_error) + steps};
}

/// Functions of pieces that fp32 computes exactly or with one rounding.
Point piecewise(Activation activation, double x) {
  const bool above = x > 0;
  if (activation == Activation::relu2) return {above ? x * x : 0, above ? 2 * x : 0, u * x * x, 0};
  if (activation == Activation::relu6) return {std::clamp(x, 0.0, 6.0), above && x < 6 ? 1.0 : 0.0, 0, 0};
  if (activation == Activation::leaky_relu) return {above ? x : 0.01 * x, above ? 1 : 0.01, 2 * u * std::abs(x), u};
  if (activation == Activation::linear) return {x, 1, 0, 0};
  if (activation == Activation::hardswish) {
    const double value = x * std::clamp(x + 3, 0.0, 6.0) / 6, terms = u * (std::abs(x) / 3 + 0.5);
    return {value, x <= -3 ? 0 : x < 3 ? x / 3 + 0.5 : 1, 5 * u * std::abs(value), 4 * terms};
  }
  return {above ? x : 0, above ? 1.0 : 0.0, 0, 0};  // relu
}

/// The learned numbers of the tests. 0.2 and −1.05 are not bf16, as a trained number would not be.
std::vector<double> numbers_of(Activation activation) {
  if (activation == Activation::prelu) return {0.3F};
  if (activation == Activation::xielu) return {0.2F, -1.05F};
  return {};
}

double bf16(double value) { return to_float(to_bfloat16(static_cast<float>(value))); }
double unbounded_softplus(double x) { return std::log1p(std::exp(x)); }

/// The functions of transformers' activations.py (PReLU is torch.nn's). xielu's p and n come from the learned numbers in bf16.
Point learned_point(Activation activation, double x) {
  const std::vector<double> numbers = numbers_of(activation);
  if (activation == Activation::prelu) return {x > 0 ? x : numbers[0] * x, x > 0 ? 1 : numbers[0], u * std::abs(x), 0};
  const double p = bf16(unbounded_softplus(bf16(numbers[0]))), n = bf16(0.5 + bf16(unbounded_softplus(bf16(numbers[1])))),
               epsilon = bf16(-1e-6);
  if (x > 0) return {p * x * x + 0.5 * x, 2 * p * x + 0.5, 4 * u * (p * x * x + x), 4 * u * (p * x + 1)};
  // The terms of the difference cancel near 0; an exponential less 1 is within four units.
  const double tail = std::expm1(std::min(x, epsilon)), size = std::abs(tail) + std::abs(x);
  return {n * (tail - x) + 0.5 * x, n * (x < epsilon ? tail : -1) + 0.5, u * (12 * n * size + 2 * size), u * (12 * n + 2)};
}

Point point_of(Activation activation, double x) {
  const double size = std::abs(x);
  if (activation_parameters(activation) > 0) return learned_point(activation, x);
  if (activation == Activation::sqrtsoftplus) {
    // The exponential's two units and the logarithm's four count half under the root.
    const double root = std::sqrt(x > 20 ? x : unbounded_softplus(x)), slope = (x > 20 ? 1 : 1 / (1 + std::exp(-x))) / (2 * root);
    return {root, slope, 10 * u * root, 20 * u * slope};
  }
  if (activation == Activation::gelu_erf || activation == Activation::gelu_10) {
    const Point share = share_of(x, 0);
    const double along = size * share.slope;
    const Point exact{x * share.value, share.value + x * share.slope, size * share.value_error + u * size * share.value,
                      share.value_error + size * share.slope_error + 3 * u * (share.value + along)};
    return activation == Activation::gelu_10 && exact.value > 10 ? Point{10, 0, 0, 0} : exact;
  }
  if (activation == Activation::laplace) {
    constexpr double mean = 0.707107, deviation = 0.282095;
    const Point share = share_of((x - mean) / deviation, u * (mean + 4 * std::abs(x - mean)) / deviation);
    return {share.value, share.slope / deviation, share.value_error, share.slope_error / deviation};
  }
  if (activation == Activation::sigmoid) {
    const double s = 1 / (1 + std::exp(-x)), rest = 1 / (1 + std::exp(x));
    return {s, s * rest, 7 * u * s, 15 * u * s * rest};
  }
  if (activation == Activation::tanh) {
    const double t = std::tanh(x);
    return {t, (1 - t) * (1 + t), 8 * u * std::abs(t), 18 * u * std::abs(t) + 3 * u};
  }
  if (activation == Activation::mish) {
    const double t = std::tanh(std::log1p(std::exp(x))), along = size * (1 - t) * (1 + t) / (1 + std::exp(-x));
    return {x * t, t + x * (1 - t) * (1 + t) / (1 + std::exp(-x)), 16 * u * size * t, 16 * u * t + 40 * u * along};
  }
  if (activation == Activation::quick_gelu) {
    // As silu below, of an argument with two more roundings.
    const double z = 1.702 * x, s = 1 / (1 + std::exp(-z)), s_error = 7 * u * s + 2 * u * std::abs(z) * s * (1 - s);
    return {x * s, s * (1 + z * (1 - s)), size * (s_error + u * s),
            s_error * (1 + std::abs(z)) + 10 * u * s * (1 + std::abs(z) * (1 - s)) + s * std::abs(z) * s_error};
  }
  if (activation != Activation::silu && activation != Activation::gelu) return piecewise(activation, x);
  if (activation == Activation::silu) {
    // σ has the four roundoffs of the exponential, one of a sum and one of a quotient. 1 − σ has the same absolute error as σ,
    // and multiplied by x it counts twice.
    const double s = 1 / (1 + std::exp(-x)), slope_terms = s * (1 + std::abs(x) * (1 - s)), rest_error = s * std::abs(x) * 7 * s * u;
    return {x * s, s * (1 + x * (1 - s)), 7 * u * std::abs(x * s), 10 * u * slope_terms + rest_error};
  }
  // The argument a of tanh has the error of five roundings of its terms, which have the same sign; the error of tanh is (1 − t²)·a
  // times that.
  const double steep = std::sqrt(2 / std::numbers::pi), cubic = 0.044715, a = steep * (x + cubic * x * x * x), t = std::tanh(a);
  const double inner = 1 - t * t, t_error = u * (8 * std::abs(t) + 5 * std::abs(a) * inner);
  const double half = 0.5 * (1 + t), along = 0.5 * x * steep * (1 + 3 * cubic * x * x);
  return {x * half, half + along * inner, std::abs(x) * (0.5 * t_error + 3 * u * half),
          0.5 * t_error + 2 * u * half + std::abs(along) * (2 * std::abs(t) * t_error + u + 8 * u * inner) +
              u * std::abs(half + along * inner)};
}

struct ActivationResults {
  ActivationResults(const ExecutionContext& context, Activation activation, DType dtype, const Shape& shape)
      : gate(dtype, shape, 41, 8.0F),
        up(dtype, shape, 42),
        dy(dtype, shape, 43),
        y(dtype, shape),
        d_gate(dtype, shape),
        d_up(dtype, shape),
        alone(dtype, shape),
        d_alone(dtype, shape),
        numbers(DType::f32, {2, 1}),
        sums(DType::f32, {4, 1}) {
    const std::vector<double> values = numbers_of(activation);
    for (std::size_t i = 0; i < values.size(); ++i) numbers.set(static_cast<std::int64_t>(i), values[i]);
    for (std::int64_t i = 0; i < 4; ++i) sums.set(i, 1);
    const std::vector<Tensor> learned = scalars(numbers, 0, values.size());
    glu_forward(context, activation, *gate, *up, *y, learned);
    glu_input_gradient(context, activation, *dy, *gate, *up, *d_gate, *d_up, learned);
    activation_forward(context, activation, *gate, *alone, learned);
    activation_input_gradient(context, activation, *dy, *gate, *d_alone, learned);
    const Tensor factor = *up;
    activation_parameter_gradient(context, activation, *dy, *gate, &factor, learned, scalars(sums, 0, values.size()));
    activation_parameter_gradient(context, activation, *dy, *gate, nullptr, learned, scalars(sums, 2, values.size()));
  }
  /// `count` tensors [1] of the data from `first` on.
  static std::vector<Tensor> scalars(const Data& data, std::int64_t first, std::size_t count) {
    std::vector<Tensor> tensors;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(count); ++i) {
      Tensor scalar = *data;
      scalar.shape = {1};
      scalar.data += (first + i) * static_cast<std::int64_t>(sizeof(float));
      tensors.push_back(scalar);
    }
    return tensors;
  }
  Data gate, up, dy, y, d_gate, d_up, alone, d_alone, numbers;
  Data sums;  // of the learned numbers: gated, then alone; 1 before
};

constexpr auto kMembers = {&ActivationResults::y,     &ActivationResults::d_gate,  &ActivationResults::d_up,
                           &ActivationResults::alone, &ActivationResults::d_alone, &ActivationResults::sums};

/// 1 + Σ dy·(up·)∂y/∂number of every learned number, by a loop in double, with an error bound: each term has the error of its factor and
/// the roundings of two products, and the sum is rounded once and added in fp32.
void expect_number_gradients(const ActivationResults& r, Activation activation) {
  const std::vector<double> numbers = numbers_of(activation);
  for (std::size_t which = 0; which < numbers.size(); ++which)
    for (const bool gated : {true, false}) {
      double sum = 0, size = 0;
      for (std::int64_t i = 0; i < r.gate.elements(); ++i) {
        const double x = r.gate.at(i), factor = r.dy.at(i) * (gated ? r.up.at(i) : 1);
        double term = x > 0 ? 0 : x, terms = std::abs(x);
        if (activation == Activation::xielu && which == 0) terms = term = x > 0 ? x * x : 0;
        if (activation == Activation::xielu && which == 1) {
          const double tail = x > 0 ? 0 : std::expm1(std::min(x, bf16(-1e-6)));
          term = x > 0 ? 0 : tail - x;
          terms = x > 0 ? 0 : 6 * (std::abs(tail) + std::abs(x));
        }
        sum += factor * term;
        size += std::abs(factor) * terms;
      }
      const double slope = activation == Activation::prelu ? 1 : 1 / (1 + std::exp(-bf16(numbers[which])));
      EXPECT_NEAR(r.sums.at(static_cast<std::int64_t>(which) + (gated ? 0 : 2)), 1 + slope * sum,
                  4 * u * size + 2 * u * (1 + std::abs(slope * sum)))
          << to_string(activation) << " " << which << " " << gated;
    }
}

TEST(Activation, MatchesReferenceForAnyThreadCount) {
  for (const Activation activation : kActivations)
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const Shape& shape : {Shape{1, 1}, Shape{3, 21}, Shape{40, 130}, Shape{61, 241}}) {
        SCOPED_TRACE(std::string(to_string(activation)) + " " + to_string(shape));
        ThreadTeam one(1);
        const ActivationResults wanted(ExecutionContext(one, Implementation::reference), activation, dtype, shape);
        const ActivationResults found(fast(one), activation, dtype, shape);
        for (const ActivationResults* results : {&wanted, &found}) {
          const auto at = [&](std::int64_t i) { return point_of(activation, results->gate.at(i)); };
          // Each factor adds the rounding of its product; the reference rounds doubles once.
          const auto times = [](double function, double error, double factor) {
            return around(function * factor, std::abs(factor) * (error + 2 * fp32_roundoff * std::abs(function)));
          };
          const auto value = [&](std::int64_t i, double factor) { return times(at(i).value, at(i).value_error, factor); };
          const auto slope = [&](std::int64_t i, double factor) { return times(at(i).slope, at(i).slope_error, factor); };
          const ActivationResults& r = *results;
          expect_number_gradients(r, activation);
          EXPECT_TRUE(lies_within(r.y, [&](std::int64_t i) { return value(i, r.up.at(i)); }));
          EXPECT_TRUE(lies_within(r.alone, [&](std::int64_t i) { return value(i, 1); }));
          EXPECT_TRUE(lies_within(r.d_up, [&](std::int64_t i) { return value(i, r.dy.at(i)); }));
          EXPECT_TRUE(lies_within(r.d_gate, [&](std::int64_t i) { return slope(i, r.dy.at(i) * r.up.at(i)); }));
          EXPECT_TRUE(lies_within(r.d_alone, [&](std::int64_t i) { return slope(i, r.dy.at(i)); }));
        }
        for (const int threads : {2, 3}) {
          ThreadTeam team(threads);
          const ActivationResults many(fast(team), activation, dtype, shape);
          for (const auto member : kMembers) EXPECT_TRUE(same_bits(found.*member, many.*member));
        }
      }
}

TEST(Activation, EndsOfTheRange) {
  ThreadTeam team(1);
  const double inputs[] = {-200, 0, 200, 1, -1e-4, 1e-4};
  const double slope = std::sqrt(2 / std::numbers::pi);
  const auto gelu = [&](double x) { return 0.5 * x * (1 + std::tanh(slope * (x + 0.044715 * x * x * x))); };
  for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
    Data gate(DType::f32, {6}), up(DType::f32, {6}), y(DType::f32, {6});
    for (std::int64_t i = 0; i < 6; ++i) {
      gate.set(i, inputs[i]);
      up.set(i, 2);
    }
    glu_forward(stream_of(team, implementation), Activation::silu, *gate, *up, *y);
    EXPECT_NEAR(y.get(0), 0, 1e-30);
    EXPECT_EQ(y.get(1), 0);
    EXPECT_EQ(y.get(2), 400);
    EXPECT_NEAR(y.get(3), 2 / (1 + std::exp(-1.0)), 1e-6);
    glu_forward(stream_of(team, implementation), Activation::gelu, *gate, *up, *y);
    EXPECT_EQ(y.get(0), 0);
    EXPECT_EQ(y.get(1), 0);
    EXPECT_EQ(y.get(2), 400);
    for (std::int64_t i = 3; i < 6; ++i) EXPECT_NEAR(y.get(i), 2 * gelu(inputs[i]), 1e-6 * std::abs(inputs[i])) << i;
  }
}

/// Where the product that defines an activation is −∞·0, the reference gives NaN, as torch does.
TEST(Activation, InfinityGivesWhatTheReferenceGives) {
  ThreadTeam team(1);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const Activation activation : kActivations)
    for (const DType dtype : {DType::f32, DType::bf16}) {
      Data x(dtype, {2}), one(dtype, {2}), numbers(DType::f32, {2, 1});
      for (std::int64_t i = 0; i < 2; ++i) {
        x.set(i, i == 0 ? -infinity : infinity);
        one.set(i, 1);
      }
      const std::vector<double> values = numbers_of(activation);
      for (std::size_t i = 0; i < values.size(); ++i) numbers.set(static_cast<std::int64_t>(i), values[i]);
      const std::vector<Tensor> learned = ActivationResults::scalars(numbers, 0, values.size());
      const auto forward = [&](Implementation implementation, bool gated) {
        Data y(dtype, {2});
        const ExecutionContext context = stream_of(team, implementation);
        gated ? glu_forward(context, activation, *x, *one, *y, learned) : activation_forward(context, activation, *x, *y, learned);
        return std::pair(y.get(0), y.get(1));
      };
      for (const bool gated : {false, true}) {
        const auto found = forward(Implementation::fast, gated), expected = forward(Implementation::reference, gated);
        const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
        EXPECT_TRUE(same(found.first, expected.first) && same(found.second, expected.second))
            << to_string(activation) << " of −∞ and ∞ is " << found.first << " and " << found.second << ", expected " << expected.first
            << " and " << expected.second;
      }
    }
}

TEST(Activation, ComputesEveryBf16AsTheFp32ThatItIs) {
  MILLRACE_CPU_ONLY();
  constexpr std::int64_t count = 1 << 16;
  ThreadTeam team(1);
  Data narrow(DType::bf16, {count}), wide(DType::f32, {count});
  for (std::int64_t i = 0; i < count; ++i) (*narrow).as<BFloat16>()[i].bits = static_cast<std::uint16_t>(i);
  convert(fast(team), *narrow, *wide);
  for (const Activation activation : kActivations) {
    if (activation_parameters(activation) > 0) continue;
    SCOPED_TRACE(to_string(activation));
    Data found(DType::bf16, {count}), computed(DType::f32, {count}), wanted(DType::bf16, {count});
    activation_forward(fast(team), activation, *narrow, *found);
    activation_forward(fast(team), activation, *wide, *computed);
    convert(fast(team), *computed, *wanted);
    EXPECT_TRUE(same_bits(found, wanted));
    activation_input_gradient(fast(team), activation, *narrow, *narrow, *found);
    activation_input_gradient(fast(team), activation, *wide, *wide, *computed);
    convert(fast(team), *computed, *wanted);
    EXPECT_TRUE(same_bits(found, wanted));
  }
}

TEST(Activation, GradientsAreSlopes) {
  ThreadTeam team(1);
  const ExecutionContext context = fast(team);
  for (const Activation activation : kActivations) {
    ActivationResults run(context, activation, DType::f32, {40});
    const std::vector<Tensor> learned = ActivationResults::scalars(run.numbers, 0, activation_parameters(activation));
    const auto slope = [&](Data& operand, std::int64_t i, bool gated) {
      Data y(DType::f32, {40});
      const auto forward = [&] {
        if (gated)
          glu_forward(context, activation, *run.gate, *run.up, *y, learned);
        else
          activation_forward(context, activation, *run.gate, *y, learned);
        return y.get(i);
      };
      return run.dy.get(i) * slope_along(operand, i, 1e-2, forward);
    };
    for (std::int64_t i = 0; i < 40; ++i) {
      EXPECT_NEAR(run.d_gate.get(i), slope(run.gate, i, true), 1e-3) << i;
      EXPECT_NEAR(run.d_up.get(i), slope(run.up, i, true), 1e-3) << i;
      EXPECT_NEAR(run.d_alone.get(i), slope(run.gate, i, false), 1e-3) << i;
    }
  }
}

/// Where eˣ underflows the function is 0 and flat, and above 20 it is the root.
TEST(Activation, SqrtSoftplusAtTheEnds) {
  ThreadTeam team(1);
  const double inputs[] = {-200, -104, -90, -20, -1e-3, 0, 19.99, 20.01, 1e30};
  for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
    Data x(DType::f32, {9}), y(DType::f32, {9}), dy(DType::f32, {9}), dx(DType::f32, {9});
    for (std::int64_t i = 0; i < 9; ++i) {
      x.set(i, inputs[i]);
      dy.set(i, 1);
    }
    activation_forward(stream_of(team, implementation), Activation::sqrtsoftplus, *x, *y);
    activation_input_gradient(stream_of(team, implementation), Activation::sqrtsoftplus, *dy, *x, *dx);
    for (std::int64_t i = 0; i < 9; ++i) {
      const double at = x.get(i), root = std::sqrt(at > 20 ? at : unbounded_softplus(at));
      // Below −87 the exponential is denormal, and beyond −103 it may be 0.
      const double lost = at < -87 ? 1e-19 : 0;
      EXPECT_NEAR(y.get(i), root, 10 * u * root + lost) << at;
      const double slope = at > 20 ? 0.5 / root : 1 / (1 + std::exp(-at)) / (2 * root);
      EXPECT_NEAR(dx.get(i), slope, 20 * u * slope + lost) << at;
    }
  }
}

TEST(Activation, RefusesOtherShapes) {
  ThreadTeam team(1);
  Data gate(DType::f32, {4}), up(DType::f32, {5});
  EXPECT_EQ(thrown([&] { glu_forward(fast(team), Activation::silu, *gate, *up, *gate); }), static_cast<int>(ExitCode::internal));
  EXPECT_EQ(thrown([&] { activation_forward(fast(team), Activation::gelu, *gate, *up); }), static_cast<int>(ExitCode::internal));
  EXPECT_EQ(thrown([&] { activation_forward(fast(team), Activation::prelu, *gate, *gate); }), static_cast<int>(ExitCode::internal));
}

}  // namespace
}  // namespace millrace::kernels::testing
