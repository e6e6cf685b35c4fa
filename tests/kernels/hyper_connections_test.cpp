#include <array>
#include <cmath>
#include <functional>
#include <vector>

#include "kernels/base/residual_map.hpp"
#include "kernels/hyper_gates.hpp"
#include "kernels/hyper_streams.hpp"
#include "tests/kernels/slopes.hpp"
#include "tests/support/expect_error.hpp"

namespace millrace::kernels::testing {
namespace {

constexpr std::array<HyperGatesOptions, 6> gate_cases{
    {{1, 1, false}, {2, 1, false}, {4, 20, false}, {8, 64, false}, {3, 20, true}, {5, 20, true}}};

std::int64_t logits_of(const HyperGatesOptions& options) { return 2 * options.streams + residual_logits(options); }
std::int64_t gates_of(const HyperGatesOptions& options) { return 2 * options.streams + options.streams * options.streams; }

struct GateResults {
  GateResults(const ExecutionContext& context, DType dtype, std::int64_t tokens, const HyperGatesOptions& options)
      : x(dtype, {tokens, logits_of(options)}, 1, 2.0F),
        dy(dtype, {tokens, gates_of(options)}, 2),
        y(dtype, {tokens, gates_of(options)}),
        dx(dtype, {tokens, logits_of(options)}) {
    hyper_gates(context, *x, options, *y);
    hyper_gates_input_gradient(context, *dy, *x, options, *dx);
    wait();
  }
  Data x, dy, y, dx;
};

/// Both compute in double and round once, so that a difference is a rounding.
TEST(HyperGates, MatchTheirReferenceForAnyThreadCount) {
  for (const HyperGatesOptions& options : gate_cases)
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const std::int64_t tokens : {1, 7, 65}) {
        SCOPED_TRACE(::testing::Message() << options.streams << " streams, lite " << options.lite << ", " << tokens << " tokens");
        ThreadTeam one(1);
        const GateResults truth(ExecutionContext(one, Implementation::reference), dtype, tokens, options),
            alone(fast(one), dtype, tokens, options);
        const double error = dtype == DType::bf16 ? 1.0 / 128 : 1e-6;
        const auto expect_near = [&](const Data& found, const Data& expected) {
          for (std::int64_t i = 0; i < found.elements(); ++i)
            EXPECT_NEAR(found.get(i), expected.get(i), error * std::abs(expected.get(i)) + 1e-9) << i;
        };
        expect_near(alone.y, truth.y);
        expect_near(alone.dx, truth.dx);
        for (const int threads : {2, 3}) {
          ThreadTeam team(threads);
          const GateResults several(fast(team), dtype, tokens, options);
          EXPECT_TRUE(same_bits(several.y, alone.y));
          EXPECT_TRUE(same_bits(several.dx, alone.dx));
        }
      }
}

TEST(HyperGates, MapsHaveRowsAndColumnsOfOne) {
  ThreadTeam team(1);
  for (const HyperGatesOptions& options : gate_cases) {
    if (options.iterations < 20) continue;
    const std::int64_t k = options.streams;
    const GateResults at(fast(team), DType::f32, 9, options);
    for (std::int64_t token = 0; token < 9; ++token) {
      const std::int64_t map = token * gates_of(options) + 2 * k;
      for (std::int64_t line = 0; line < k; ++line) {
        double row = 0, column = 0;
        for (std::int64_t entry = 0; entry < k; ++entry) {
          row += at.y.get(map + line * k + entry);
          column += at.y.get(map + entry * k + line);
          EXPECT_GE(at.y.get(map + line * k + entry), 0);
        }
        EXPECT_NEAR(row, 1, 1e-3);
        EXPECT_NEAR(column, 1, 1e-4);
      }
    }
  }
}

/// At the beginning of a training all logits are 0: each branch reads half of every stream and its result is added to each, and the streams
/// are averaged.
TEST(HyperGates, BeginAsAnAverage) {
  ThreadTeam team(1);
  for (const bool lite : {false, true}) {
    const HyperGatesOptions options{.streams = 4, .lite = lite};
    Data x(DType::f32, {1, logits_of(options)}), y(DType::f32, {1, gates_of(options)});
    for (std::int64_t i = 0; i < x.elements(); ++i) x.set(i, 0);
    hyper_gates(fast(team), *x, options, *y);
    wait();
    for (std::int64_t i = 0; i < y.elements(); ++i) EXPECT_NEAR(y.get(i), i < 4 ? 0.5 : i < 8 ? 1.0 : 0.25, 1e-5) << i;
  }
}

TEST(HyperGates, GradientsAreSlopes) {
  ThreadTeam team(1);
  const ExecutionContext context(team, Implementation::reference);
  for (const HyperGatesOptions& options : gate_cases) {
    SCOPED_TRACE(::testing::Message() << options.streams << " streams, lite " << options.lite);
    GateResults at(context, DType::f32, 3, options);
    const double largest = expect_slopes(at.x, at.dx, 1, 1e-2, 2e-4, [&] {
      hyper_gates(context, *at.x, options, *at.y);
      double loss = 0;
      for (std::int64_t i = 0; i < at.y.elements(); ++i) loss += at.y.get(i) * at.dy.get(i);
      return loss;
    });
    EXPECT_GT(largest, 0.02);
  }
}

TEST(ResidualMap, PermutationsAreInLexicographicOrder) {
  std::vector<std::array<std::int64_t, 3>> all;
  for (std::int64_t p = 0; p < 6; ++p) permutation(p, 3, all.emplace_back().data());
  EXPECT_EQ(all, (std::vector<std::array<std::int64_t, 3>>{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}));
}

struct StreamResults {
  StreamResults(const ExecutionContext& context, DType dtype, std::int64_t tokens, std::int64_t width, std::int64_t k)
      : x(dtype, {tokens, k * width}, 1),
        v(dtype, {tokens, width}, 2),
        pre(dtype, {tokens, k}, 3),
        post(dtype, {tokens, k}, 4),
        map(dtype, {tokens, k * k}, 5),
        dy(dtype, {tokens, k * width}, 6),
        expanded(dtype, {tokens, k * width}),
        reduced(dtype, {tokens, width}),
        collected(dtype, {tokens, width}),
        spread(dtype, {tokens, k * width}),
        collect_dx(dtype, {tokens, k * width}),
        d_pre(dtype, {tokens, k}),
        spread_dx(dtype, {tokens, k * width}),
        dv(dtype, {tokens, width}),
        d_post(dtype, {tokens, k}),
        d_map(dtype, {tokens, k * k}) {
    run(context);
    collect_streams_gradient(context, *v, *x, *pre, *collect_dx, *d_pre);
    spread_streams_gradient(context, *dy, *x, *v, *post, *map, *spread_dx, *dv, *d_post, *d_map);
    wait();
  }
  void run(const ExecutionContext& context) {
    expand_streams(context, *v, *expanded);
    reduce_streams(context, *x, *reduced);
    collect_streams(context, *x, *pre, *collected);
    spread_streams(context, *x, *v, *post, *map, *spread);
  }
  [[nodiscard]] std::vector<const Data*> results() const {
    return {&expanded, &reduced, &collected, &spread, &collect_dx, &d_pre, &spread_dx, &dv, &d_post, &d_map};
  }
  Data x, v, pre, post, map, dy, expanded, reduced, collected, spread, collect_dx, d_pre, spread_dx, dv, d_post, d_map;
};

TEST(HyperStreams, MatchTheirReferenceForAnyThreadCount) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::int64_t tokens : {1, 5, 33})
      for (const std::int64_t width : {1, 15, 64, 131})
        for (const std::int64_t k : {1, 3, 4, 8}) {
          SCOPED_TRACE(::testing::Message() << tokens << " x " << width << ", " << k << " streams, " << to_string(dtype));
          ThreadTeam one(1);
          const StreamResults truth(ExecutionContext(one, Implementation::reference), dtype, tokens, width, k),
              alone(fast(one), dtype, tokens, width, k);
          // Sums of at most width products of numbers of about 1.
          const double error = (dtype == DType::bf16 ? 1.0 / 128 : 1e-6) * std::sqrt(static_cast<double>(width + k) + 4);
          for (std::size_t result = 0; result < truth.results().size(); ++result)
            for (std::int64_t i = 0; i < truth.results()[result]->elements(); ++i)
              EXPECT_NEAR(alone.results()[result]->get(i), truth.results()[result]->get(i), error) << result << " at " << i;
          for (const int threads : {2, 3}) {
            ThreadTeam team(threads);
            const StreamResults several(fast(team), dtype, tokens, width, k);
            for (std::size_t result = 0; result < truth.results().size(); ++result)
              EXPECT_TRUE(same_bits(*several.results()[result], *alone.results()[result])) << result;
          }
        }
}

TEST(HyperStreams, GradientsAreSlopes) {
  ThreadTeam team(1);
  const ExecutionContext context(team, Implementation::reference);
  StreamResults at(context, DType::f32, 2, 5, 3);
  const auto product = [](const Data& a, const Data& b) {
    double sum = 0;
    for (std::int64_t i = 0; i < a.elements(); ++i) sum += a.get(i) * b.get(i);
    return sum;
  };
  const auto spread_loss = [&] {
    at.run(context);
    return product(at.spread, at.dy);
  };
  const auto collect_loss = [&] {
    at.run(context);
    return product(at.collected, at.v);
  };
  for (const auto& [operand, gradient] : std::initializer_list<std::pair<Data*, Data*>>{
           {&at.x, &at.spread_dx}, {&at.v, &at.dv}, {&at.post, &at.d_post}, {&at.map, &at.d_map}})
    EXPECT_GT(expect_slopes(*operand, *gradient, 1, 1e-2, 1e-4, spread_loss), 0.1);
  EXPECT_GT(expect_slopes(at.x, at.collect_dx, 1, 1e-2, 1e-4, collect_loss), 0.1);
  EXPECT_GT(expect_slopes(at.pre, at.d_pre, 1, 1e-2, 1e-4, collect_loss), 0.1);
}

TEST(HyperStreams, RefuseWhatDoesNotFit) {
  ThreadTeam team(1);
  Data x(DType::f32, {2, 7}), one(DType::f32, {2, 3});
  tests::expect_error([&] { reduce_streams(fast(team), *x, *one); }, ExitCode::internal, {"streams of 7 features beside one of 3"});
  Data gates(DType::f32, {2, 24}), logits(DType::f32, {2, 23});
  tests::expect_error([&] { hyper_gates(fast(team), *logits, {}, *gates); }, ExitCode::internal, {"kernels.hyper_gates"});
}

}  // namespace
}  // namespace millrace::kernels::testing
