#include "kernels/indexer_loss.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/kernels/key_lists.hpp"

namespace millrace::kernels::testing {
namespace {

using tests::around;
using tests::fp32_roundoff;
using tests::roundings;

struct IndexerCase {
  std::int64_t rows, sequence, heads, kv_heads, width, index_heads, index_width;
  std::int64_t length;    // of a list; 0: all keys that a query sees
  std::int64_t document;  // tokens per segment; 0: one segment per row
  DType dtype = DType::f32;
  [[nodiscard]] std::int64_t tokens() const { return rows * sequence; }
};

void PrintTo(const IndexerCase& c, std::ostream* out) {
  *out << c.rows << " rows of " << c.sequence << ", heads " << c.heads << " on " << c.kv_heads << " of " << c.width << ", index heads "
       << c.index_heads << " of " << c.index_width << ", lists of " << c.length << ", documents of " << c.document << " "
       << to_string(c.dtype);
}

const IndexerCase kIndexerCases[] = {{1, 1, 1, 1, 8, 1, 4, 1, 0},
                                     {1, 1, 1, 1, 8, 1, 4, 0, 0},
                                     {2, 9, 2, 1, 12, 3, 5, 4, 0},
                                     {2, 9, 2, 2, 12, 3, 5, 0, 4},
                                     {1, 40, 4, 2, 16, 2, 16, 17, 0},
                                     {1, 75, 3, 1, 20, 4, 24, 0, 30},
                                     {1, 70, 2, 2, 48, 5, 80, 20, 0},
                                     {0, 5, 2, 1, 4, 2, 4, 2, 0},
                                     {2, 35, 4, 2, 24, 3, 12, 11, 0, DType::bf16},
                                     {1, 66, 2, 2, 16, 2, 33, 0, 50, DType::bf16},
                                     {1, 300, 1, 1, 4, 1, 8, 0, 0},
                                     {1, 270, 1, 1, 4, 2, 260, 6, 0}};

constexpr float kScoreScale = 0.4F, kIndexScale = 0.3F, kTermScale = 0.125F;

struct IndexerCall {
  explicit IndexerCall(const IndexerCase& at)
      : c(at),
        q(c.dtype, {c.tokens(), c.heads, c.width}, 31),
        k(c.dtype, {c.tokens(), c.kv_heads, c.width}, 32),
        index_q(c.dtype, {c.tokens(), c.index_heads, c.index_width}, 33),
        index_k(c.dtype, {c.tokens(), c.index_width}, 34),
        index_weights(DType::f32, {c.tokens(), c.index_heads}, 35, 2.0F),
        segments(DType::i32, {c.tokens()}),
        keys(DType::i32, {c.tokens(), std::max<std::int64_t>(c.length, 1)}),
        scale(DType::f32, {1}),
        loss(DType::f64, {1}, 36),
        forward_loss(DType::f64, {1}, 37),
        d_index_q(c.dtype, (*index_q).shape, 38),
        d_index_k(c.dtype, (*index_k).shape, 39),
        d_index_weights(DType::f32, (*index_weights).shape, 40) {
    for (std::int64_t t = 0; t < c.tokens(); ++t)
      segments.set(t, c.document == 0 ? 1 : 1.0 + static_cast<double>(t % c.sequence / c.document));
    if (c.length > 0) fill_key_lists(keys, c.sequence, 41);
    scale.set(0, kTermScale);
  }
  [[nodiscard]] IndexerLossOptions options() const {
    return {.sequence = c.sequence, .scale = kScoreScale, .index_scale = kIndexScale, .list_length = c.length};
  }
  template <class Body>
  void with(const ExecutionContext& context, Body&& body) const {
    const Tensor of_q = *q, of_k = *k, of_index_q = *index_q, of_index_k = *index_k, weights = *index_weights, segment = *segments,
                 lists = *keys;
    const Buffer scratch =
        scratch_of(context, indexer_loss_scratch_bytes(of_q.shape, of_index_q.shape, c.dtype, options(), context.processor()));
    body(IndexerLossOperands{of_q, of_k, of_index_q, of_index_k, weights, segment, c.length > 0 ? &lists : nullptr}, scratch.bytes());
    wait();
  }
  void forward(const ExecutionContext& context) const {
    with(context, [&](const IndexerLossOperands& in, Scratch scratch) { indexer_loss(context, in, options(), *forward_loss, scratch); });
  }
  void backward(const ExecutionContext& context) const {
    with(context, [&](const IndexerLossOperands& in, Scratch scratch) {
      indexer_loss_input_gradient(context, in, *scale, options(), *d_index_q, *d_index_k, *d_index_weights, *loss, scratch);
    });
  }
  /// The tokens that are the keys of token t.
  [[nodiscard]] std::vector<std::int64_t> keys_of(std::int64_t t) const {
    std::vector<std::int64_t> list;
    const std::int64_t row = t / c.sequence * c.sequence;
    for (std::int64_t i = 0; i < c.length && keys.at(t * c.length + i) >= 0; ++i)
      list.push_back(row + static_cast<std::int64_t>(keys.at(t * c.length + i)));
    for (std::int64_t u = row; c.length == 0 && u <= t; ++u)
      if (segments.at(u) == segments.at(t)) list.push_back(u);
    return list;
  }
  IndexerCase c;
  Data q, k, index_q, index_k, index_weights, segments, keys, scale, loss, forward_loss, d_index_q, d_index_k, d_index_weights;
};
constexpr auto kIndexerOutputs = {&IndexerCall::loss, &IndexerCall::forward_loss, &IndexerCall::d_index_q, &IndexerCall::d_index_k,
                                  &IndexerCall::d_index_weights};

/// A number in double and how far fp32 may be from it.
struct BoundedIndexer {
  double value = 0, error = 0;
  void add(double more, double uncertainty) {
    value += more;
    error += uncertainty;
  }
};
using Numbers = std::vector<BoundedIndexer>;

::testing::AssertionResult contains(const Numbers& truth, const Data& found) {
  return lies_within(found, [&](std::int64_t i) {
    const BoundedIndexer& each = truth[static_cast<std::size_t>(i)];
    return around(each.value, each.error);
  });
}

/// Σ scale · a[a_vector] · b[b_vector].
BoundedIndexer product(const Data& a, std::int64_t a_vector, const Data& b, std::int64_t b_vector, std::int64_t width, double scale) {
  BoundedIndexer sum;
  for (std::int64_t d = 0; d < width; ++d) {
    const double term = scale * a.at(a_vector * width + d) * b.at(b_vector * width + d);
    sum.add(term, roundings(static_cast<double>(width) + 2) * std::abs(term));
  }
  return sum;
}

/// The softmax, and in `error` the relative error of each of its numbers.
void softmax(Numbers& x) {
  double maximum = x[0].value, spread = 0, of_score = 0, sum = 0;
  for (const BoundedIndexer& each : x) maximum = std::max(maximum, each.value);
  for (const BoundedIndexer& each : x) {
    spread = std::max(spread, maximum - each.value);
    of_score = std::max(of_score, each.error);
    sum += std::exp(each.value - maximum);
  }
  // Numerator and denominator: scores and maximum, the exponential of a rounded difference, the sum, the quotient.
  const double error = 4 * of_score + (2 * spread + 10) * fp32_roundoff + roundings(static_cast<double>(x.size()) + 2);
  for (BoundedIndexer& each : x) each = {std::exp(each.value - maximum) / sum, error};
}

/// The definition in double.
struct IndexerTruth {
  explicit IndexerTruth(const IndexerCall& at) : in(at), c(at.c) {
    d_index_q.resize(static_cast<std::size_t>(at.d_index_q.elements()));
    d_index_k.resize(static_cast<std::size_t>(at.d_index_k.elements()));
    d_index_weights.resize(static_cast<std::size_t>(at.d_index_weights.elements()));
    for (std::int64_t t = 0; t < c.tokens(); ++t) read(t);
  }
  void read(std::int64_t t) {
    const std::vector<std::int64_t> list = in.keys_of(t);
    if (list.empty()) return;
    const auto count = static_cast<double>(list.size());
    Numbers target(list.size()), found(list.size());
    double of_target = 0;
    for (std::int64_t h = 0; h < c.heads; ++h) {
      Numbers scores;
      for (const std::int64_t u : list)
        scores.push_back(product(in.q, t * c.heads + h, in.k, u * c.kv_heads + h * c.kv_heads / c.heads, c.width, double{kScoreScale}));
      softmax(scores);
      of_target = std::max(of_target, scores[0].error);
      for (std::size_t i = 0; i < list.size(); ++i) target[i].value += scores[i].value;
    }
    const auto heads = static_cast<double>(c.heads);
    of_target += 2 * roundings(heads) + roundings(count) + 3 * fp32_roundoff;  // sums over heads, over keys, a quotient
    for (BoundedIndexer& each : target) each = {each.value / (heads + double{indexer_loss_epsilon}), of_target};
    for (std::size_t i = 0; i < list.size(); ++i)
      for (std::int64_t h = 0; h < c.index_heads; ++h) {
        const double weight = double{kIndexScale} * in.index_weights.at(t * c.index_heads + h);
        const BoundedIndexer z = product(in.index_q, t * c.index_heads + h, in.index_k, list[i], c.index_width, 1);
        found[i].add(weight * std::max(z.value, 0.0),
                     std::abs(weight) * (z.error + roundings(static_cast<double>(c.index_heads) + 2) * std::abs(z.value)));
      }
    softmax(found);
    const double of_found = found[0].error;
    double all = 0;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const double p = target[i].value, q = found[i].value, epsilon = double{indexer_loss_epsilon};
      const double of_logarithms = 4 * fp32_roundoff * (std::abs(std::log(p + epsilon)) + std::abs(std::log(q + epsilon)) + 1);
      const double ratio = std::log(p + epsilon) - std::log(q + epsilon);
      loss.add(p * ratio, p * (of_target * (std::abs(ratio) + 1) + of_found + of_logarithms + roundings(count) * std::abs(ratio)));
      all += p * q / (q + epsilon);
    }
    // Relative errors: those of a quotient and a product in R; of a sum over keys.
    const double of_r = of_target + of_found + 4 * fp32_roundoff, of_all = of_r + roundings(count);
    for (std::size_t i = 0; i < list.size(); ++i) {
      const double q = found[i].value, r = target[i].value * q / (q + double{indexer_loss_epsilon}), scale = double{kTermScale};
      const BoundedIndexer slope{scale * (q * all - r),
                                 scale * (q * all * (of_found + of_all + 3 * fp32_roundoff) + r * (of_r + 3 * fp32_roundoff))};
      differentiate(t, list[i], slope, count);
    }
  }
  void differentiate(std::int64_t t, std::int64_t u, BoundedIndexer slope, double count) {
    for (std::int64_t h = 0; h < c.index_heads; ++h) {
      const std::int64_t vector = t * c.index_heads + h;
      const BoundedIndexer z = product(in.index_q, vector, in.index_k, u, c.index_width, 1);
      const double weight = double{kIndexScale} * in.index_weights.at(vector), positive = std::max(z.value, 0.0);
      const bool unsure = std::abs(z.value) <= z.error;  // its sign is that of the roundings
      d_index_weights[static_cast<std::size_t>(vector)].add(
          slope.value * positive * double{kIndexScale},
          double{kIndexScale} *
              (slope.error * positive + std::abs(slope.value) * (z.error + (roundings(count) + 3 * fp32_roundoff) * positive)));
      if (z.value <= 0 && !unsure) continue;
      const double dz = z.value > 0 ? slope.value * weight : 0;
      const auto uncertainty = [&](double terms) {
        return std::abs(weight) * (slope.error + std::abs(slope.value) * (unsure ? 1 : roundings(terms) + 3 * fp32_roundoff));
      };
      for (std::int64_t d = 0; d < c.index_width; ++d) {
        const double key = in.index_k.at(u * c.index_width + d), query = in.index_q.at(vector * c.index_width + d);
        d_index_q[static_cast<std::size_t>(vector * c.index_width + d)].add(dz * key, uncertainty(count) * std::abs(key));
        d_index_k[static_cast<std::size_t>(u * c.index_width + d)].add(
            dz * query, uncertainty(static_cast<double>(c.sequence * c.index_heads)) * std::abs(query));
      }
    }
  }
  const IndexerCall& in;
  const IndexerCase& c;
  BoundedIndexer loss;
  Numbers d_index_q, d_index_k, d_index_weights;
};

void expect_definition(const IndexerCall& at, const IndexerTruth& truth) {
  EXPECT_NEAR(at.loss.get(0), truth.loss.value, truth.loss.error);
  EXPECT_NEAR(at.forward_loss.get(0), truth.loss.value, truth.loss.error);
  EXPECT_TRUE(contains(truth.d_index_q, at.d_index_q));
  EXPECT_TRUE(contains(truth.d_index_k, at.d_index_k));
  EXPECT_TRUE(contains(truth.d_index_weights, at.d_index_weights));
}

TEST(IndexerLoss, MatchesItsDefinitionForAnyThreadCount) {
  for (const IndexerCase& c : kIndexerCases) {
    SCOPED_TRACE(::testing::PrintToString(c));
    const IndexerCall expected(c), found(c);
    const IndexerTruth truth(expected);
    ThreadTeam one(1);
    const ExecutionContext reference(one, Implementation::reference);
    expected.forward(reference);
    expected.backward(reference);
    expect_definition(expected, truth);
    found.forward(fast(one));
    found.backward(fast(one));
    expect_definition(found, truth);
    EXPECT_TRUE(same_bits(found.loss, found.forward_loss));
    for (const int threads : {2, 3}) {
      ThreadTeam team(threads);
      const IndexerCall many(c);
      many.forward(fast(team));
      many.backward(fast(team));
      for (const auto output : kIndexerOutputs) EXPECT_TRUE(same_bits(found.*output, many.*output));
    }
  }
}

/// Two keys with scores of the attention 0 and log 3, and of the indexer 0 and 1 · log 2.
TEST(IndexerLoss, IsWhatItsFormulaSays) {
  ThreadTeam team(1);
  for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
    const IndexerCase c{1, 2, 1, 1, 1, 2, 1, 0, 0};
    IndexerCall call(c);
    for (std::int64_t t = 0; t < 2; ++t) {
      call.q.set(t, 1);
      call.k.set(t, t == 0 ? 0 : std::log(3.0) / double{kScoreScale});
      call.index_k.set(t, static_cast<double>(t));
      for (const std::int64_t h : {0, 1}) {
        call.index_q.set(2 * t + h, h == 0 ? 1 : -1);  // the second head's products are not positive
        call.index_weights.set(2 * t + h, h == 0 ? std::log(2.0) / double{kIndexScale} : 5);
      }
    }
    call.backward(stream_of(team, implementation));
    // The first token has one key: both distributions are 1. The second: P = (¼, ¾), Q = (⅓, ⅔).
    EXPECT_NEAR(call.loss.get(0), 0.25 * std::log(0.75) + 0.75 * std::log(1.125), 1e-6);
    // dI = scale · (Q − P), of which the second key's score is weight · product of the first head.
    const double slope = double{kTermScale} * (2.0 / 3 - 0.75);
    EXPECT_NEAR(call.d_index_weights.get(2), slope * double{kIndexScale}, 1e-7);
    EXPECT_NEAR(call.d_index_q.get(2), slope * std::log(2.0), 1e-7);
    EXPECT_NEAR(call.d_index_k.get(1), slope * std::log(2.0), 1e-7);
    for (const std::int64_t i : {0, 1, 3}) {
      EXPECT_NEAR(call.d_index_weights.get(i), 0, 1e-8);
      EXPECT_NEAR(call.d_index_q.get(i), 0, 1e-8);
    }
    EXPECT_NEAR(call.d_index_k.get(0), 0, 1e-7);
  }
}

// A distribution that is the attention's has no loss, and one that is not has some.
TEST(IndexerLoss, IsNothingIfTheDistributionsAgree) {
  ThreadTeam team(1);
  IndexerCall call({1, 20, 1, 1, 6, 1, 6, 0, 7});
  for (std::int64_t i = 0; i < call.q.elements(); ++i) {
    call.index_q.set(i, std::abs(call.q.get(i)));
    call.q.set(i, std::abs(call.q.get(i)));
    call.index_k.set(i, std::abs(call.k.get(i)));
    call.k.set(i, std::abs(call.k.get(i)));
  }
  for (std::int64_t t = 0; t < 20; ++t) call.index_weights.set(t, double{kScoreScale} / double{kIndexScale});
  call.forward(fast(team));
  EXPECT_NEAR(call.forward_loss.get(0), 0, 20 * 1e-6);
  call.index_weights.set(19, 4);
  call.forward(fast(team));
  EXPECT_GT(call.forward_loss.get(0), 1e-2);
}

TEST(IndexerLoss, GradientsAreSlopes) {
  MILLRACE_CPU_ONLY();  // the definition above covers a device; this covers the definition
  ThreadTeam team(1);
  const ExecutionContext context(team, Implementation::reference);
  for (const std::int64_t length : {0, 5}) {
    IndexerCall call({2, 8, 2, 1, 6, 3, 4, length, 5});
    call.backward(context);
    const auto objective = [&] {
      call.forward(context);
      return double{kTermScale} * call.forward_loss.get(0);
    };
    // A product that changes its sign within the step has a kink there, so those are left out.
    const auto is_smooth = [&](std::int64_t t, std::int64_t h, double reach) {
      const auto list = call.keys_of(t);
      return std::ranges::all_of(
          list, [&](std::int64_t u) { return std::abs(product(call.index_q, t * 3 + h, call.index_k, u, 4, 1).value) > reach; });
    };
    constexpr double step = 0x1p-9;
    // The loss is computed in double; a cubic part with third derivatives of below 8 along one number.
    constexpr double tolerance = 0.125 * 8 * step * step / 6 + 1e-9;
    double largest = 0;
    int checked = 0;
    const auto expect = [&](Data& operand, const Data& gradient, std::int64_t i) {
      EXPECT_NEAR(gradient.get(i), slope_along(operand, i, step, objective), tolerance + 4 * fp32_roundoff * std::abs(gradient.get(i)))
          << i;
      largest = std::max(largest, std::abs(gradient.get(i)));
      ++checked;
    };
    for (std::int64_t i = 0; i < call.index_weights.elements(); ++i) expect(call.index_weights, call.d_index_weights, i);
    for (std::int64_t i = 0; i < call.index_q.elements(); ++i)
      if (is_smooth(i / 12, i / 4 % 3, 2 * step)) expect(call.index_q, call.d_index_q, i);
    for (std::int64_t i = 0; i < call.index_k.elements(); ++i) {
      bool smooth = true;
      for (std::int64_t t = i / 4 / 8 * 8; t < (i / 4 / 8 + 1) * 8; ++t)
        for (std::int64_t h = 0; h < 3; ++h) smooth = smooth && is_smooth(t, h, 2 * step);
      if (smooth) expect(call.index_k, call.d_index_k, i);
    }
    EXPECT_GT(largest, 100 * tolerance);
    EXPECT_GT(checked, 150);
  }
}

TEST(IndexerLoss, AllocatesNothing) {
  MILLRACE_CPU_ONLY();
  ThreadTeam team(2);
  const ExecutionContext context = fast(team);
  const IndexerCall call({1, 100, 2, 1, 32, 4, 16, 30, 0, DType::bf16});
  call.with(context, [&](const IndexerLossOperands& in, Scratch scratch) {
    const std::int64_t before = large_allocations();
    indexer_loss(context, in, call.options(), *call.forward_loss, scratch);
    indexer_loss_input_gradient(context, in, *call.scale, call.options(), *call.d_index_q, *call.d_index_k, *call.d_index_weights,
                                *call.loss, scratch);
    EXPECT_EQ(large_allocations(), before);
  });
}

TEST(IndexerLoss, RefusesOtherShapesAndLists) {
  ThreadTeam team(1);
  const ExecutionContext context = fast(team);
  IndexerCall call({2, 6, 4, 2, 8, 3, 5, 3, 0});
  const auto code = [&](IndexerLossOptions options, const Data& loss) {
    int result = 0;
    call.with(context, [&](const IndexerLossOperands& in, Scratch scratch) {
      result = thrown([&] { indexer_loss(context, in, options, *loss, scratch); });
    });
    return result;
  };
  constexpr int internal = static_cast<int>(ExitCode::internal);
  EXPECT_EQ(code(call.options(), call.loss), -1);
  EXPECT_EQ(code(call.options(), call.scale), internal);
  IndexerLossOptions options = call.options();
  options.sequence = 5;
  EXPECT_EQ(code(options, call.loss), internal);
  options = call.options();
  options.list_length = 2;
  EXPECT_EQ(code(options, call.loss), internal);
  options.list_length = 0;
  EXPECT_EQ(code(options, call.loss), internal);
  options = call.options();
  options.head_dim = 7;
  EXPECT_EQ(code(options, call.loss), internal);
  const auto gradient = [&](const Data& scale, const Data& dq, const Data& dk, const Data& dw) {
    int result = 0;
    call.with(context, [&](const IndexerLossOperands& in, Scratch scratch) {
      result = thrown([&] { indexer_loss_input_gradient(context, in, *scale, call.options(), *dq, *dk, *dw, *call.loss, scratch); });
    });
    return result;
  };
  EXPECT_EQ(gradient(call.scale, call.d_index_q, call.d_index_k, call.d_index_weights), -1);
  EXPECT_EQ(gradient(call.loss, call.d_index_q, call.d_index_k, call.d_index_weights), internal);
  EXPECT_EQ(gradient(call.scale, call.d_index_k, call.d_index_k, call.d_index_weights), internal);
  EXPECT_EQ(gradient(call.scale, call.d_index_q, call.d_index_q, call.d_index_weights), internal);
  EXPECT_EQ(gradient(call.scale, call.d_index_q, call.d_index_k, call.d_index_k), internal);
  call.keys.set(7, 6);
  EXPECT_EQ(code(call.options(), call.loss), internal);
}

}  // namespace
}  // namespace millrace::kernels::testing
