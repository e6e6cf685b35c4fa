#include "kernels/sparse_attention.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/attention.hpp"
#include "tests/kernels/key_lists.hpp"

namespace millrace::kernels::testing {
namespace {

using tests::around;
using tests::fp32_roundoff;
using tests::roundings;

struct SparseCase {
  std::int64_t rows, sequence, heads, kv_heads, width, values, length;
  DType dtype = DType::f32;
  float scale = 0.3F, soft_cap = 0;
  [[nodiscard]] std::int64_t tokens() const { return rows * sequence; }
};

void PrintTo(const SparseCase& c, std::ostream* out) {
  *out << c.rows << " rows of " << c.sequence << ", heads " << c.heads << " on " << c.kv_heads << " of " << c.width << " and " << c.values
       << ", lists of " << c.length << " " << to_string(c.dtype) << " cap " << c.soft_cap;
}

const SparseCase kSparseCases[] = {{1, 1, 1, 1, 8, 8, 1},
                                   {2, 7, 2, 1, 12, 5, 3},
                                   {1, 40, 4, 2, 16, 16, 17},
                                   {2, 33, 3, 3, 24, 13, 16, DType::f32, 0.5F, 2.0F},
                                   {1, 70, 2, 1, 192, 128, 20, DType::f32, 0.1F},
                                   {1, 50, 4, 1, 7, 33, 50},
                                   {1, 30, 2, 2, 300, 270, 9, DType::f32, 0.05F},
                                   {0, 5, 2, 1, 4, 4, 2},
                                   {2, 35, 6, 2, 24, 16, 11, DType::bf16},
                                   {1, 60, 2, 2, 80, 48, 33, DType::bf16, 0.2F, 3.0F},
                                   {1, 90, 1, 1, 64, 64, 70, DType::bf16, 0.1F}};

struct Inputs {
  explicit Inputs(const SparseCase& at)
      : c(at),
        q(c.dtype, {c.tokens(), c.heads, c.width}, 11),
        k(c.dtype, {c.tokens(), c.kv_heads, c.width}, 12),
        v(c.dtype, {c.tokens(), c.kv_heads, c.values}, 13),
        d_o(c.dtype, {c.tokens(), c.heads, c.values}, 14),
        keys(DType::i32, {c.tokens(), c.length}) {
    fill_key_lists(keys, c.sequence, 15);
  }
  [[nodiscard]] SparseAttentionOptions options() const {
    return {.sequence = c.sequence, .v_head_dim = c.values, .scale = c.scale, .soft_cap = c.soft_cap};
  }
  SparseCase c;
  Data q, k, v, d_o, keys;
};

struct Outputs {
  explicit Outputs(const Inputs& in)
      : o(in.c.dtype, (*in.d_o).shape, 21),
        sums(DType::f32, {in.c.tokens(), in.c.heads}, 22),
        dq(in.c.dtype, (*in.q).shape, 23),
        dk(in.c.dtype, (*in.k).shape, 24),
        dv(in.c.dtype, (*in.v).shape, 25) {}
  Data o, sums, dq, dk, dv;
};
constexpr auto kSparseOutputs = {&Outputs::o, &Outputs::sums, &Outputs::dq, &Outputs::dk, &Outputs::dv};

Buffer scratch_for(const ExecutionContext& context, const Inputs& in) {
  return scratch_of(
      context, sparse_attention_scratch_bytes((*in.q).shape, (*in.k).shape, in.c.length, in.c.dtype, in.options(), context.processor()));
}
void forward(const ExecutionContext& context, const Inputs& in, Outputs& out) {
  const Buffer scratch = scratch_for(context, in);
  sparse_attention_forward(context, *in.q, *in.k, *in.v, *in.keys, in.options(), *out.o, *out.sums, scratch.bytes());
  wait();
}
void backward(const ExecutionContext& context, const Inputs& in, const Outputs& saved, Outputs& out) {
  const Buffer scratch = scratch_for(context, in);
  sparse_attention_input_gradient(context, *in.d_o, *in.q, *in.k, *in.v, *saved.o, *saved.sums, *in.keys, in.options(), *out.dq, *out.dk,
                                  *out.dv, scratch.bytes());
  wait();
}

/// Numbers in double and how far fp32 may be from them.
struct BoundedSparse {
  explicit BoundedSparse(const Data& like) : value(static_cast<std::size_t>(like.elements())), error(value.size()) {}
  void add(std::int64_t i, double more, double uncertainty) {
    value[static_cast<std::size_t>(i)] += more;
    error[static_cast<std::size_t>(i)] += uncertainty;
  }
  [[nodiscard]] ::testing::AssertionResult contains(const Data& found) const {
    return lies_within(found,
                       [&](std::int64_t i) { return around(value[static_cast<std::size_t>(i)], error[static_cast<std::size_t>(i)]); });
  }
  std::vector<double> value, error;
};

/// The definition in double. Gradients are those for the o and log_sum_exp that are given, as the kernel gets them.
class SparseTruth {
 public:
  explicit SparseTruth(const Inputs& in) : in_(in), c(in.c) {}

  void expect_forward(const Outputs& found) const {
    BoundedSparse o(found.o), sums(found.sums);
    for (std::int64_t vector = 0; vector < c.tokens() * c.heads; ++vector) {
      const auto scores = scores_of(vector);
      if (scores.empty()) {
        ASSERT_EQ(found.sums.at(vector), -std::numeric_limits<double>::infinity());
        sums.add(vector, found.sums.at(vector), 0);
        continue;
      }
      double maximum = scores[0].value, spread = 0, of_score = 0, sum = 0;
      for (const Score& score : scores) maximum = std::max(maximum, score.value);
      for (const Score& score : scores) {
        spread = std::max(spread, maximum - score.value);
        of_score = std::max(of_score, score.error);
        sum += std::exp(score.value - maximum);
      }
      // Scores and maximum; the exponential of a rounded difference; for an online softmax once more; sums over the keys.
      const double error = 2 * of_score + (2 * spread + 12) * fp32_roundoff + roundings(static_cast<double>(scores.size()) + 2);
      sums.add(vector, maximum + std::log(sum), error + 4 * fp32_roundoff * (std::abs(maximum) + std::log(sum) + 1));
      for (const Score& score : scores)
        for (std::int64_t d = 0; d < c.values; ++d) {
          const double term = std::exp(score.value - maximum) / sum * in_.v.at(score.kv_vector * c.values + d);
          o.add(vector * c.values + d, term, 2 * error * std::abs(term));
        }
    }
    EXPECT_TRUE(o.contains(found.o));
    EXPECT_TRUE(sums.contains(found.sums));
  }

  void expect_gradients(const Outputs& saved, const Outputs& found) const {
    BoundedSparse dq(found.dq), dk(found.dk), dv(found.dv);
    const double many = static_cast<double>(c.sequence * c.heads / c.kv_heads);  // terms of a key's sum at most
    for (std::int64_t vector = 0; vector < c.tokens() * c.heads; ++vector) {
      const auto scores = scores_of(vector);
      double delta = 0, of_delta = 0;
      for (std::int64_t d = 0; d < c.values; ++d) {
        const double term = in_.d_o.at(vector * c.values + d) * saved.o.at(vector * c.values + d);
        delta += term;
        of_delta += roundings(static_cast<double>(c.values)) * std::abs(term);
      }
      for (const Score& score : scores) {
        const double log_sum = saved.sums.at(vector), p = std::exp(score.value - log_sum);
        const double of_p = score.error + (std::abs(score.value - log_sum) + 6) * fp32_roundoff;  // relative
        double dp = 0, of_dp = 0;
        for (std::int64_t d = 0; d < c.values; ++d) {
          const double term = in_.d_o.at(vector * c.values + d) * in_.v.at(score.kv_vector * c.values + d);
          dp += term;
          of_dp += roundings(static_cast<double>(c.values)) * std::abs(term);
        }
        const double share = c.soft_cap > 0 ? score.value / static_cast<double>(c.soft_cap) : 0;
        const double of_share = c.soft_cap > 0 ? score.error / static_cast<double>(c.soft_cap) + 3 * fp32_roundoff : 0;
        const double scale = static_cast<double>(c.scale), ds = scale * p * (dp - delta) * (1 - share * share);
        const double of_ds = scale * p *
                             ((of_dp + of_delta + fp32_roundoff * (std::abs(dp) + std::abs(delta))) +
                              std::abs(dp - delta) * (of_p + 2 * of_share + 4 * fp32_roundoff));
        for (std::int64_t d = 0; d < c.width; ++d) {
          const double key = in_.k.at(score.kv_vector * c.width + d), query = in_.q.at(vector * c.width + d);
          dq.add(vector * c.width + d, ds * key,
                 (of_ds + std::abs(ds) * roundings(static_cast<double>(scores.size()) + 3)) * std::abs(key));
          dk.add(score.kv_vector * c.width + d, ds * query, (of_ds + std::abs(ds) * roundings(many + 3)) * std::abs(query));
        }
        for (std::int64_t d = 0; d < c.values; ++d) {
          const double along = in_.d_o.at(vector * c.values + d);
          dv.add(score.kv_vector * c.values + d, p * along, p * (of_p + roundings(many + 2)) * std::abs(along));
        }
      }
    }
    EXPECT_TRUE(dq.contains(found.dq));
    EXPECT_TRUE(dk.contains(found.dk));
    EXPECT_TRUE(dv.contains(found.dv));
  }

 private:
  struct Score {
    std::int64_t kv_vector;
    double value, error;
  };
  /// The scores of one query head.
  [[nodiscard]] std::vector<Score> scores_of(std::int64_t vector) const {
    std::vector<Score> scores;
    const std::int64_t t = vector / c.heads, kv_head = vector % c.heads * c.kv_heads / c.heads;
    for (std::int64_t i = 0; i < c.length; ++i) {
      const auto key = static_cast<std::int64_t>(in_.keys.at(t * c.length + i));
      if (key < 0) break;
      Score score{(t / c.sequence * c.sequence + key) * c.kv_heads + kv_head, 0, 0};
      double size = 0;
      for (std::int64_t d = 0; d < c.width; ++d) {
        const double term = static_cast<double>(c.scale) * in_.q.at(vector * c.width + d) * in_.k.at(score.kv_vector * c.width + d);
        score.value += term;
        size += std::abs(term);
      }
      score.error = roundings(static_cast<double>(c.width) + 2) * size;
      if (c.soft_cap > 0) {
        score.value = static_cast<double>(c.soft_cap) * std::tanh(score.value / static_cast<double>(c.soft_cap));
        score.error += 8 * fp32_roundoff * std::abs(score.value);  // tanh is within 4 ulp, then a product
      }
      scores.push_back(score);
    }
    return scores;
  }
  const Inputs& in_;
  const SparseCase& c;
};

TEST(SparseAttention, MatchesItsDefinitionForAnyThreadCount) {
  for (const SparseCase& c : kSparseCases) {
    SCOPED_TRACE(::testing::PrintToString(c));
    const Inputs in(c);
    const SparseTruth truth(in);
    ThreadTeam one(1);
    const ExecutionContext reference(one, Implementation::reference);
    Outputs expected(in), found(in);
    forward(reference, in, expected);
    backward(reference, in, expected, expected);
    truth.expect_forward(expected);
    truth.expect_gradients(expected, expected);
    forward(fast(one), in, found);
    backward(fast(one), in, found, found);
    truth.expect_forward(found);
    truth.expect_gradients(found, found);
    for (const int threads : {2, 3}) {
      ThreadTeam team(threads);
      Outputs many(in);
      forward(fast(team), in, many);
      backward(fast(team), in, many, many);
      for (const auto output : kSparseOutputs) EXPECT_TRUE(same_bits(found.*output, many.*output));
    }
  }
}

// Lists of all earlier keys are causal attention.
TEST(SparseAttention, OfAllKeysIsAttention) {
  ThreadTeam team(2);
  const SparseCase c{2, 30, 4, 2, 24, 16, 30};
  Inputs in(c);
  for (std::int64_t i = 0; i < in.keys.elements(); ++i) in.keys.set(i, i % 30 <= i / 30 % 30 ? static_cast<double>(i % 30) : -1.0);
  Data segments(DType::i32, {c.tokens()});
  for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
    const ExecutionContext context = stream_of(team, implementation);
    Outputs found(in), expected(in);
    forward(context, in, found);
    backward(context, in, found, found);
    const AttentionOptions options{.sequence = c.sequence, .v_head_dim = c.values, .scale = c.scale};
    const Buffer scratch =
        scratch_of(context, attention_scratch_bytes((*in.q).shape, (*in.k).shape, c.dtype, options, context.processor()));
    attention_forward(context, *in.q, *in.k, *in.v, *segments, options, *expected.o, *expected.sums, scratch.bytes());
    attention_input_gradient(context, *in.d_o, *in.q, *in.k, *in.v, *expected.o, *expected.sums, *segments, options, *expected.dq,
                             *expected.dk, *expected.dv, scratch.bytes());
    wait();
    // Numbers of about 1 from sums over 24 features, 30 keys and 60 queries, of which each way takes its own order.
    for (const auto output : kSparseOutputs)
      for (std::int64_t i = 0; i < (found.*output).elements(); ++i)
        ASSERT_NEAR((found.*output).at(i), (expected.*output).at(i), 4 * roundings(24 + 30 + 60));
  }
}

// The slopes of Σ o · dO.
TEST(SparseAttention, GradientsAreSlopes) {
  MILLRACE_CPU_ONLY();  // the definition above covers a device; this covers the definition
  ThreadTeam team(1);
  const ExecutionContext context(team, Implementation::reference);
  for (const float soft_cap : {0.0F, 1.5F}) {
    Inputs in({2, 9, 4, 2, 6, 5, 4, DType::f32, 0.7F, soft_cap});
    Outputs out(in);
    forward(context, in, out);
    backward(context, in, out, out);
    Outputs moved(in);
    const auto objective = [&] {
      forward(context, in, moved);
      double sum = 0;
      for (std::int64_t i = 0; i < moved.o.elements(); ++i) sum += moved.o.at(i) * in.d_o.at(i);
      return sum;
    };
    const auto expect = [&](Data& operand, const Data& gradient) {
      double largest = 0;
      for (std::int64_t i = 0; i < operand.elements(); ++i) {
        // A sum of some 20 stored results of size 1 over the step, and the cubic part: third derivatives of a softmax of few keys along one
        // feature of size 1 are below 1.
        constexpr double step = 0x1p-7;
        EXPECT_NEAR(gradient.at(i), slope_along(operand, i, step, objective), 20 * fp32_roundoff / step + step * step / 6) << i;
        largest = std::max(largest, std::abs(gradient.at(i)));
      }
      EXPECT_GT(largest, 0.05);
    };
    expect(in.q, out.dq);
    expect(in.k, out.dk);
    expect(in.v, out.dv);
  }
}

TEST(SparseAttention, KeysThatAreNotListedDoNotMatter) {
  ThreadTeam team(1);
  const SparseCase c{1, 40, 2, 1, 20, 12, 5};
  Inputs in(c), changed(c);
  for (std::int64_t t = 0; t < 40; ++t)
    for (std::int64_t i = 0; i < 5; ++i)
      for (Inputs* each : {&in, &changed}) each->keys.set(t * 5 + i, i < 3 ? static_cast<double>(2 * i + 1) : -1.0);
  for (std::int64_t d = 0; d < 20; ++d) changed.k.set(2 * 20 + d, 1e30);
  for (std::int64_t d = 0; d < 12; ++d) changed.v.set(2 * 12 + d, std::numeric_limits<double>::quiet_NaN());
  Outputs expected(in), found(in);
  forward(fast(team), in, expected);
  backward(fast(team), in, expected, expected);
  forward(fast(team), changed, found);
  backward(fast(team), changed, found, found);
  for (const auto output : kSparseOutputs) EXPECT_TRUE(same_bits(expected.*output, found.*output));
  for (std::int64_t d = 0; d < 20; ++d) EXPECT_EQ(found.dk.get(2 * 20 + d), 0);
}

TEST(SparseAttention, AllocatesNothing) {
  MILLRACE_CPU_ONLY();
  ThreadTeam team(2);
  const ExecutionContext context = fast(team);
  const Inputs in({1, 100, 2, 1, 64, 48, 30, DType::bf16});
  const Outputs out(in);
  const Buffer scratch = scratch_for(context, in);
  const std::int64_t before = large_allocations();
  sparse_attention_forward(context, *in.q, *in.k, *in.v, *in.keys, in.options(), *out.o, *out.sums, scratch.bytes());
  sparse_attention_input_gradient(context, *in.d_o, *in.q, *in.k, *in.v, *out.o, *out.sums, *in.keys, in.options(), *out.dq, *out.dk,
                                  *out.dv, scratch.bytes());
  EXPECT_EQ(large_allocations(), before);
}

TEST(SparseAttention, RefusesOtherShapesAndLists) {
  ThreadTeam team(1);
  const ExecutionContext context = fast(team);
  Inputs in({2, 6, 4, 2, 8, 5, 3});
  const Outputs out(in);
  const Buffer scratch = scratch_for(context, in);
  const auto code = [&](const Data& k, const Data& v, const Data& o, SparseAttentionOptions options) {
    return thrown([&] { sparse_attention_forward(context, *in.q, *k, *v, *in.keys, options, *o, *out.sums, scratch.bytes()); });
  };
  constexpr int internal = static_cast<int>(ExitCode::internal), config = static_cast<int>(ExitCode::config);
  const Data three(DType::f32, {12, 3, 8}), wide(DType::f32, {12, 2, 8});
  EXPECT_EQ(code(in.k, in.v, out.o, in.options()), -1);
  EXPECT_EQ(code(three, in.v, out.o, in.options()), config);
  EXPECT_EQ(code(in.k, wide, out.o, in.options()), internal);
  EXPECT_EQ(code(in.k, in.v, in.q, in.options()), internal);
  SparseAttentionOptions options = in.options();
  options.sequence = 5;
  EXPECT_EQ(code(in.k, in.v, out.o, options), internal);
  options = in.options();
  options.soft_cap = -1;
  EXPECT_EQ(code(in.k, in.v, out.o, options), config);
  options = in.options();
  options.head_dim = 7;
  EXPECT_EQ(code(in.k, in.v, out.o, options), internal);
  for (const int wrong : {6, -2}) {
    in.keys.set(7, wrong);
    try {
      sparse_attention_forward(context, *in.q, *in.k, *in.v, *in.keys, in.options(), *out.o, *out.sums, scratch.bytes());
      wait();
      ADD_FAILURE() << "took key " << wrong << " of 6";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::internal);
      EXPECT_NE(std::string(error.what()).find(fmt::format("key {} at position 7, expected 0 to 5", wrong)), std::string::npos)
          << error.what();
    }
  }
  if (on_device()) return;
  for (std::int64_t i = 0; i < 3; ++i) in.keys.set(6 + i, i == 1 ? -1 : 2);
  EXPECT_EQ(code(in.k, in.v, out.o, in.options()), internal);
  in.keys.set(7, 2);
  EXPECT_EQ(code(in.k, in.v, out.o, in.options()), internal);
}

}  // namespace
}  // namespace millrace::kernels::testing
