#include "kernels/score_maxima.hpp"

#include <limits>

#include "tests/kernels/fixture.hpp"

namespace millrace::kernels::testing {
namespace {

struct Case {
  std::int64_t rows, sequence, heads, kv_heads, width;
  std::int64_t window = 0, chunk = 0;
  bool causal = true;
  int segments = 1;
};

/// The definition, in double, over the pairs that the mask leaves.
double largest(const Case& c, const Data& q, const Data& k, const Data& segments, std::int64_t head, double scale) {
  double result = -std::numeric_limits<double>::infinity();
  for (std::int64_t t = 0; t < c.rows * c.sequence; ++t)
    for (std::int64_t u = t / c.sequence * c.sequence; u < (t / c.sequence + 1) * c.sequence; ++u) {
      const std::int64_t apart = t - u;
      if (c.causal && apart < 0) continue;
      if (c.window > 0 && std::abs(apart) >= c.window) continue;
      if (c.chunk > 0 && t % c.sequence / c.chunk != u % c.sequence / c.chunk) continue;
      if (segments.at(t) != segments.at(u)) continue;
      double sum = 0;
      for (std::int64_t d = 0; d < c.width; ++d)
        sum += q.at((t * c.heads + head) * c.width + d) * k.at((u * c.kv_heads + head / (c.heads / c.kv_heads)) * c.width + d);
      result = std::max(result, scale * sum);
    }
  return result;
}

TEST(ScoreMaxima, AreTheLargestScoresThatQueriesSee) {
  for (const Case& c :
       {Case{1, 1, 1, 1, 3}, Case{2, 7, 4, 4, 14}, Case{1, 33, 6, 2, 5}, Case{3, 50, 2, 1, 17, 6}, Case{1, 40, 2, 2, 8, 0, 16},
        Case{2, 37, 2, 2, 8, 0, 0, false}, Case{1, 45, 3, 3, 8, 5, 0, false}, Case{2, 61, 2, 2, 9, 0, 0, true, 3}})
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const int threads : {1, 3}) {
        ThreadTeam team(threads);
        const Data q(dtype, {c.rows * c.sequence, c.heads, c.width}, 1), k(dtype, {c.rows * c.sequence, c.kv_heads, c.width}, 2);
        Data segments(DType::i32, {c.rows * c.sequence});
        for (std::int64_t t = 0; t < segments.elements(); ++t) segments.set(t, t % c.sequence * c.segments / c.sequence);
        const AttentionOptions options{.sequence = c.sequence, .scale = 0.3F, .window = c.window, .chunk = c.chunk, .causal = c.causal};
        for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
          const auto context = stream_of(team, implementation);
          const auto scratch = scratch_of(context, score_maxima_scratch_bytes((*q).shape, options, context.processor()));
          const Data found(DType::f64, {c.heads});
          score_maxima(context, *q, *k, *segments, options, *found, scratch.bytes());
          wait();
          for (std::int64_t h = 0; h < c.heads; ++h) {
            // Products of numbers in [−1, 1] are summed in fp32, and the sum is scaled.
            const double error = tests::roundings(static_cast<double>(c.width) + 2) * 0.3 * static_cast<double>(c.width);
            EXPECT_NEAR(found.at(h), largest(c, q, k, segments, h, static_cast<double>(0.3F)), error) << c.sequence << ", head " << h;
          }
        }
      }
}

// The bits depend neither on threads nor on how rows are divided into calls.
TEST(ScoreMaxima, AreThoseOfTheRowsAlone) {
  constexpr std::int64_t rows = 3, sequence = 41, heads = 2, width = 11;
  ThreadTeam one(1), three(3);
  const Data q(DType::f32, {rows * sequence, heads, width}, 1), k(DType::f32, {rows * sequence, heads, width}, 2);
  const Data segments(DType::i32, {rows * sequence});
  const AttentionOptions options{.sequence = sequence};
  const auto maxima = [&](ThreadTeam& team, std::int64_t row, std::int64_t count) {
    const auto context = fast(team);
    const auto part = [&](const Data& data) {
      const std::size_t bytes = (*data).bytes() / static_cast<std::size_t>(rows);
      Tensor tensor = *data;
      tensor.data += static_cast<std::size_t>(row) * bytes;
      tensor.shape = tensor.shape.rank() == 1 ? Shape{count * sequence} : Shape{count * sequence, heads, width};
      return tensor;
    };
    const auto scratch = scratch_of(context, score_maxima_scratch_bytes({rows * sequence, heads, width}, options, context.processor()));
    const Data found(DType::f64, {heads});
    score_maxima(context, part(q), part(k), part(segments), options, *found, scratch.bytes());
    wait();
    return std::vector<double>{found.at(0), found.at(1)};
  };
  const auto all = maxima(one, 0, rows);
  EXPECT_EQ(maxima(three, 0, rows), all);
  std::vector<double> alone(2, -std::numeric_limits<double>::infinity());
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto own = maxima(three, row, 1);
    for (std::size_t h = 0; h < 2; ++h) alone[h] = std::max(alone[h], own[h]);
  }
  EXPECT_EQ(alone, all);
}

TEST(ScoreMaxima, RefuseWhatDoesNotFit) {
  ThreadTeam team(1);
  const Data q(DType::f32, {8, 3, 4}, 1), k(DType::f32, {8, 2, 4}, 2), segments(DType::i32, {8}), maxima(DType::f64, {3});
  const auto refuses = [&](const Data& keys, AttentionOptions options) {
    const auto scratch = scratch_of(fast(team), 1 << 16);
    return thrown([&] { score_maxima(fast(team), *q, *keys, *segments, options, *maxima, scratch.bytes()); });
  };
  EXPECT_EQ(refuses(k, {.sequence = 8}), static_cast<int>(ExitCode::config)) << "3 heads on 2";
  EXPECT_EQ(refuses(q, {.sequence = 3}), static_cast<int>(ExitCode::internal));
  EXPECT_EQ(refuses(q, {.sequence = 8, .soft_cap = 1}), static_cast<int>(ExitCode::internal));
}

}  // namespace
}  // namespace millrace::kernels::testing
