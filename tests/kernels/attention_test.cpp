#include "kernels/attention.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <tuple>

#include "tests/kernels/fixture.hpp"

namespace millrace::kernels::testing {
namespace {

struct Case {
  std::int64_t rows, sequence, heads, kv_heads, width;
  DType dtype;
  std::int64_t document;  // tokens per segment; 0: one segment per row
  float scale = 0.3F;
  std::int64_t window = 0, chunk = 0;
  float soft_cap = 0;
  bool causal = true;
  bool sinks = false;
  bool one_segment = false;
};

std::string describe(const Case& c) {
  return fmt::format("B={} S={} H={} K={} D={} {} documents of {} window {} chunk {} soft cap {} causal {}", c.rows, c.sequence, c.heads,
                     c.kv_heads, c.width, to_string(c.dtype), c.document, c.window, c.chunk, c.soft_cap, c.causal);
}

// The operands of one case, with gradients of the outputs.
struct Inputs {
  explicit Inputs(const Case& c)
      : shape(c),
        q(c.dtype, {c.rows * c.sequence, c.heads, c.width}, 11),
        k(c.dtype, {c.rows * c.sequence, c.kv_heads, c.width}, 12),
        v(c.dtype, {c.rows * c.sequence, c.kv_heads, c.width}, 13),
        d_o(c.dtype, (*q).shape, 14),
        segments(DType::i32, {c.rows * c.sequence}),
        sinks(DType::f32, {c.heads}, 15, 2.0F) {
    for (std::int64_t t = 0; t < segments.elements(); ++t) segments.set(t, c.document == 0 ? 1 : 1 + t % c.sequence / c.document);
  }
  [[nodiscard]] AttentionOptions options() const {
    return {.sequence = shape.sequence,
            .scale = shape.scale,
            .soft_cap = shape.soft_cap,
            .window = shape.window,
            .chunk = shape.chunk,
            .causal = shape.causal,
            .one_segment = shape.one_segment};
  }
  Case shape;
  Data q, k, v, d_o, segments, sinks;
};

struct Outputs {
  explicit Outputs(const Inputs& in)
      : o((*in.q).dtype, (*in.q).shape),
        sums(DType::f32, {(*in.q).shape[0], (*in.q).shape[1]}),
        dq((*in.q).dtype, (*in.q).shape),
        dk((*in.k).dtype, (*in.k).shape),
        dv((*in.k).dtype, (*in.k).shape),
        d_sinks(DType::f32, {(*in.q).shape[1]}, 16) {}
  Data o, sums, dq, dk, dv, d_sinks;
};

Buffer scratch_of(const ExecutionContext& context, const Inputs& in) {
  return testing::scratch_of(context,
                             attention_scratch_bytes((*in.q).shape, (*in.k).shape, (*in.q).dtype, in.options(), context.processor()));
}

void forward(const ExecutionContext& context, const Inputs& in, Outputs& out) {
  const Buffer scratch = scratch_of(context, in);
  const Tensor sinks = *in.sinks;
  attention_forward(context, *in.q, *in.k, *in.v, *in.segments, in.options(), *out.o, *out.sums, scratch.bytes(),
                    in.shape.sinks ? &sinks : nullptr);
}

void backward(const ExecutionContext& context, const Inputs& in, const Outputs& saved, Outputs& out) {
  const Buffer scratch = scratch_of(context, in);
  attention_input_gradient(context, *in.d_o, *in.q, *in.k, *in.v, *saved.o, *saved.sums, *in.segments, in.options(), *out.dq, *out.dk,
                           *out.dv, scratch.bytes());
  if (in.shape.sinks) attention_sink_gradient(context, *in.d_o, *saved.o, *saved.sums, *in.sinks, *out.d_sinks);
}

Outputs run(const Inputs& in, int threads = 1) {
  ThreadTeam team(threads);
  const ExecutionContext context = fast(team);
  Outputs out(in);
  forward(context, in, out);
  backward(context, in, out, out);
  return out;
}

using tests::around;
using tests::fp32_roundoff;
using tests::Interval;
using tests::roundings;

/// Euclidean length of each head vector.
std::vector<double> lengths(const Data& x) {
  const std::int64_t width = (*x).shape[2];
  std::vector<double> result;
  for (std::int64_t i = 0; i < x.elements(); i += width) {
    double squares = 0;
    for (std::int64_t d = i; d < i + width; ++d) squares += x.at(d) * x.at(d);
    result.push_back(std::sqrt(squares));
  }
  return result;
}
double longest_vector(const Data& x) { return std::ranges::max(lengths(x)); }

void copy_to(Data& to, const Data& from) {
  for (std::int64_t i = 0; i < from.elements(); ++i) to.set(i, from.get(i));
}

/// The reference's results before they are stored, with error bounds for fp32 arithmetic. The magnitudes of the summed terms are
/// attentions themselves: with |v|, |k| or |dO| in place of v or dO.
class Truth {
 public:
  /// `saved`: the outputs that the gradients read.
  Truth(const Inputs& in, const Outputs& saved)
      : in_(in), wide_(in_fp32(in)), exact_(wide_), seen_v_(wide_), seen_k_(wide_), seen_do_(wide_), seen_q_(wide_) {
    ThreadTeam team(1);
    const ExecutionContext context(team, Implementation::reference);
    Outputs kept(wide_);
    copy_to(kept.o, saved.o);
    copy_to(kept.sums, saved.sums);
    forward(context, wide_, exact_);
    backward(context, wide_, kept, exact_);
    const auto run = [&](const Data& v, const Data& d_o, Outputs& out, bool back) {
      Inputs other(wide_);
      copy_to(other.v, v);
      copy_to(other.d_o, d_o);
      if (back)
        backward(context, other, kept, out);
      else
        forward(context, other, out);
    };
    run(magnitudes(in.v), wide_.d_o, seen_v_, false);
    run(magnitudes(in.k), wide_.d_o, seen_k_, false);
    run(wide_.v, magnitudes(in.d_o), seen_do_, true);
    lengths_of_do_ = lengths(wide_.d_o);
    Data weighted_q = magnitudes(in.q);
    for (std::int64_t i = 0; i < weighted_q.elements(); ++i) weighted_q.set(i, weighted_q.get(i) * length_of_do(i));
    run(wide_.v, weighted_q, seen_q_, true);
    follow_errors(longest_vector(saved.o));
  }

  [[nodiscard]] Interval o(std::int64_t i) const {
    return around(exact_.o.at(i), (2 * probability_ + roundings(keys_ + 8)) * seen_v_.o.at(i));
  }
  [[nodiscard]] Interval sums(std::int64_t i) const {
    return around(exact_.sums.at(i), probability_ + roundings(keys_) + roundings(3) * std::abs(exact_.sums.at(i)));
  }
  [[nodiscard]] Interval dv(std::int64_t i) const {
    return around(exact_.dv.at(i), (probability_ + roundings(queries_ + 1)) * seen_do_.dv.at(i));
  }
  [[nodiscard]] Interval dq(std::int64_t i) const {
    return around(exact_.dq.at(i), (slope_ + roundings(keys_ + 4)) * slope_size_ * length_of_do(i) * seen_k_.o.at(i));
  }
  [[nodiscard]] Interval dk(std::int64_t i) const {
    return around(exact_.dk.at(i), (slope_ + roundings(queries_ + 4)) * slope_size_ * seen_q_.dv.at(i));
  }

  void expect_forward(const Outputs& found) const {
    EXPECT_TRUE(lies_within(found.o, [&](std::int64_t i) { return o(i); }));
    EXPECT_TRUE(lies_within(found.sums, [&](std::int64_t i) { return sums(i); }));
  }
  void expect_gradients(const Outputs& found) const {
    EXPECT_TRUE(lies_within(found.dq, [&](std::int64_t i) { return dq(i); }));
    EXPECT_TRUE(lies_within(found.dk, [&](std::int64_t i) { return dk(i); }));
    EXPECT_TRUE(lies_within(found.dv, [&](std::int64_t i) { return dv(i); }));
  }

 private:
  static Inputs in_fp32(const Inputs& in) {
    Case wide = in.shape;
    wide.dtype = DType::f32;
    Inputs result(wide);
    for (const auto member : {&Inputs::q, &Inputs::k, &Inputs::v, &Inputs::d_o, &Inputs::segments, &Inputs::sinks})
      copy_to(result.*member, in.*member);
    return result;
  }
  /// Length of the head vector of dO that element i belongs to.
  [[nodiscard]] double length_of_do(std::int64_t i) const { return lengths_of_do_[static_cast<std::size_t>(i / in_.shape.width)]; }
  void follow_errors(double longest_o) {
    constexpr double u = fp32_roundoff;
    const Case& c = in_.shape;
    const auto width = static_cast<double>(c.width);
    keys_ = static_cast<double>(c.window > 0 ? std::min(c.causal ? c.window : 2 * c.window - 1, c.sequence) : c.sequence);
    queries_ = static_cast<double>(c.sequence * (c.heads / c.kv_heads));
    // A score is a sum of D products of numbers that include the scale; a cap adds tanh's four units and the products around it.
    double reach = static_cast<double>(c.scale) * longest_vector(wide_.q) * longest_vector(wide_.k);
    double score = roundings(width + 3) * reach, by_cap = 0;
    if (c.soft_cap > 0) {
      const auto cap = static_cast<double>(c.soft_cap);
      score += 2 * u * reach + 10 * u * std::min(cap, reach);
      by_cap = 2 * score / cap + 8 * u;
      reach = std::min(cap, reach);
    }
    // An exponential has the absolute error of its argument as relative error, a difference with the sum has the errors of all,
    // and each has two units of its own.
    probability_ = score + u * (4 * reach + 2 * std::log(keys_)) + 4 * u;
    if (on_device() && c.dtype == DType::bf16) probability_ += tests::bf16_roundoff;  // tensor cores read it in bf16
    slope_ = probability_ + by_cap + roundings(width + 3);
    slope_size_ = static_cast<double>(c.scale) * (longest_vector(wide_.v) + longest_o);
  }

  const Inputs& in_;
  Inputs wide_;
  Outputs exact_, seen_v_, seen_k_, seen_do_, seen_q_;
  std::vector<double> lengths_of_do_;
  double keys_ = 0, queries_ = 0;
  double probability_ = 0;  // relative error of a probability
  // of a score's gradient: the error relative to the size of the terms that cancel in it, and that size, divided by P and |dO|
  double slope_ = 0, slope_size_ = 0;
};

/// The definition in double, by loops over all pairs.
struct Plain {
  explicit Plain(const Inputs& in)
      : c(in.shape),
        q(doubles(in.q)),
        k(doubles(in.k)),
        v(doubles(in.v)),
        d_o(doubles(in.d_o)),
        segments(doubles(in.segments)),
        sinks(doubles(in.sinks)) {}

  static std::vector<double> doubles(const Data& data) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < data.elements(); ++i) values.push_back(data.get(i));
    return values;
  }
  [[nodiscard]] bool sees(std::int64_t t, std::int64_t u) const {
    if (t / c.sequence != u / c.sequence || segments[static_cast<std::size_t>(t)] != segments[static_cast<std::size_t>(u)]) return false;
    const std::int64_t query = t % c.sequence, key = u % c.sequence;
    if (c.causal && key > query) return false;
    if (c.window > 0 && std::abs(query - key) >= c.window) return false;
    return c.chunk == 0 || query / c.chunk == key / c.chunk;
  }
  void attend(std::int64_t t, std::int64_t head, double* o, double& log_sum) const {
    const std::int64_t kv_head = head * c.kv_heads / c.heads;
    double sum = c.sinks ? std::exp(sinks[static_cast<std::size_t>(head)]) : 0;
    std::fill_n(o, c.width, 0.0);
    for (std::int64_t u = t / c.sequence * c.sequence; u < (t / c.sequence + 1) * c.sequence; ++u) {
      if (!sees(t, u)) continue;
      const double *query = q.data() + (t * c.heads + head) * c.width, *key = k.data() + (u * c.kv_heads + kv_head) * c.width;
      const double* value = v.data() + (u * c.kv_heads + kv_head) * c.width;
      double score = 0;
      for (std::int64_t d = 0; d < c.width; ++d) score += query[d] * key[d];
      score *= static_cast<double>(c.scale);
      if (c.soft_cap > 0) score = static_cast<double>(c.soft_cap) * std::tanh(score / static_cast<double>(c.soft_cap));
      const double weight = std::exp(score);
      sum += weight;
      for (std::int64_t d = 0; d < c.width; ++d) o[d] += weight * value[d];
    }
    for (std::int64_t d = 0; d < c.width; ++d) o[d] /= sum;
    log_sum = std::log(sum);
  }
  /// Σ o·dO, whose derivatives the gradients are.
  [[nodiscard]] double objective() const {
    std::vector<double> o(static_cast<std::size_t>(c.width));
    double sum = 0, log_sum = 0;
    for (std::int64_t t = 0; t < c.rows * c.sequence; ++t)
      for (std::int64_t head = 0; head < c.heads; ++head) {
        attend(t, head, o.data(), log_sum);
        for (std::int64_t d = 0; d < c.width; ++d)
          sum += o[static_cast<std::size_t>(d)] * d_o[static_cast<std::size_t>((t * c.heads + head) * c.width + d)];
      }
    return sum;
  }
  /// The slope along one of the operands' elements.
  [[nodiscard]] double slope(std::vector<double> Plain::*operand, std::int64_t i) {
    double& element = (this->*operand)[static_cast<std::size_t>(i)];
    const double before = element;
    constexpr double step = 1e-4;
    element = before + step;
    const double above = objective();
    element = before - step;
    const double below = objective();
    element = before;
    return (above - below) / (2 * step);
  }

  Case c;
  std::vector<double> q, k, v, d_o, segments, sinks;
};

const Case kCases[] = {
    {1, 1, 1, 1, 8, DType::f32, 0},
    {2, 7, 2, 1, 16, DType::f32, 3},
    {1, 64, 2, 2, 64, DType::f32, 0},
    {2, 65, 4, 2, 32, DType::f32, 0},
    {1, 129, 3, 1, 13, DType::f32, 50},
    {2, 200, 2, 1, 80, DType::f32, 70},
    {1, 192, 2, 1, 128, DType::f32, 0},
    {1, 150, 2, 2, 5, DType::f32, 1},
    {1, 97, 6, 2, 24, DType::bf16, 40},
    {2, 130, 4, 2, 64, DType::bf16, 0},
    {1, 140, 2, 1, 128, DType::bf16, 65},
    {3, 5, 2, 2, 9, DType::bf16, 2},
    // windows: one token, less than a tile, a tile, several tiles, with documents
    {1, 70, 2, 1, 16, DType::f32, 0, 0.3F, 1},
    {2, 150, 2, 2, 24, DType::f32, 0, 0.3F, 5},
    {1, 200, 2, 1, 16, DType::f32, 0, 0.3F, 64},
    {1, 330, 2, 1, 16, DType::f32, 0, 0.3F, 100},
    {1, 260, 2, 1, 16, DType::bf16, 90, 0.3F, 65},
    // chunks, and both
    {2, 150, 2, 1, 16, DType::f32, 0, 0.3F, 0, 40},
    {1, 260, 2, 1, 16, DType::f32, 100, 0.3F, 0, 128},
    {1, 200, 2, 1, 16, DType::f32, 0, 0.3F, 30, 70},
    // soft caps, far above and far below the scores
    {1, 130, 2, 1, 16, DType::f32, 0, 2.0F, 0, 0, 50},
    {1, 130, 2, 1, 16, DType::f32, 50, 4.0F, 20, 0, 1.5F},
    {2, 70, 4, 2, 32, DType::bf16, 0, 2.0F, 0, 0, 5},
    // every key
    {2, 50, 2, 1, 16, DType::f32, 0, 0.3F, 0, 0, 0, false},
    {1, 131, 2, 2, 8, DType::f32, 40, 1.0F, 0, 0, 3, false},
    {1, 192, 2, 1, 16, DType::bf16, 0, 0.3F, 0, 0, 0, false},
    // windows and chunks to both sides: one token, less than a tile, a tile, several tiles, with documents, caps and sinks
    {1, 70, 2, 1, 16, DType::f32, 0, 0.3F, 1, 0, 0, false},
    {2, 150, 2, 2, 24, DType::f32, 0, 0.3F, 5, 0, 0, false},
    {1, 200, 2, 1, 16, DType::f32, 0, 0.3F, 64, 0, 0, false},
    {1, 330, 2, 1, 16, DType::f32, 110, 0.3F, 100, 0, 1.5F, false},
    {2, 150, 2, 1, 16, DType::f32, 0, 0.3F, 0, 40, 0, false},
    {1, 200, 2, 1, 16, DType::f32, 0, 0.3F, 30, 70, 0, false, true},
    {1, 7, 2, 1, 6, DType::f32, 0, 0.3F, 3, 0, 0, false},
    {1, 260, 2, 1, 16, DType::bf16, 90, 0.3F, 65, 0, 0, false},
    {1, 270, 2, 1, 64, DType::bf16, 100, 0.1F, 130, 128, 3, false, true},
    {2, 150, 4, 2, 136, DType::bf16, 0, 0.3F, 40, 0, 5, false, true},
    // a row of several tiles in which the first tile of queries sees fewer keys than a later one
    {1, 200, 2, 1, 64, DType::bf16, 0, 0.3F, 20, 0, 0, false, false, true},
    // sinks, alone and with everything
    {2, 130, 4, 2, 16, DType::f32, 0, 0.3F, 0, 0, 0, true, true},
    {1, 140, 2, 1, 24, DType::bf16, 60, 0.3F, 20, 0, 5, true, true},
    {2, 5, 3, 1, 7, DType::f32, 2, 0.3F, 1, 0, 0, true, true},
    // wide heads, and widths that fill no vector
    {1, 100, 2, 1, 256, DType::f32, 40},
    {2, 70, 2, 1, 160, DType::f32, 0, 0.3F, 40, 0, 5, true, true},
    {1, 100, 2, 1, 256, DType::bf16, 40},
    {2, 150, 4, 2, 136, DType::bf16, 0, 0.3F, 40, 0, 5, true, true},
    {1, 200, 3, 1, 77, DType::bf16, 70, 0.3F, 0, 50},
    {1, 200, 2, 1, 96, DType::bf16, 0, 0.3F, 0, 0, 0, false},
    {1, 200, 2, 1, 201, DType::bf16, 90, 0.3F, 0, 0, 0, false},
    // rows of several tiles, some with two segments
    {1, 300, 2, 1, 64, DType::bf16, 0},
    {1, 256, 2, 1, 128, DType::bf16, 128, 0.1F},
    {1, 270, 2, 1, 64, DType::bf16, 100, 0.1F, 130, 128, 3, true, true},
};

/// −Σ exp(sink − log sum)·(dO·o) plus the previous value: sums of D products and of as many tokens.
void expect_sink_gradients(const Inputs& in, const Outputs& saved, const Outputs& found) {
  const Case& c = in.shape;
  const Outputs before(in);
  EXPECT_TRUE(lies_within(found.d_sinks, [&](std::int64_t head) {
    double sum = before.d_sinks.at(head), size = std::abs(sum);
    for (std::int64_t t = 0; c.sinks && t < c.rows * c.sequence; ++t)
      for (std::int64_t d = 0; d < c.width; ++d) {
        const std::int64_t i = (t * c.heads + head) * c.width + d;
        const double term = std::exp(in.sinks.at(head) - saved.sums.at(t * c.heads + head)) * in.d_o.at(i) * saved.o.at(i);
        sum -= term;
        size += std::abs(term);
      }
    return around(sum, c.sinks ? roundings(static_cast<double>(c.rows * c.sequence + c.width) + 8) * size : 0);
  }));
}

TEST(Attention, MatchesReference) {
  ThreadTeam team(2);
  const ExecutionContext context = fast(team);
  const ExecutionContext plain(team, Implementation::reference);
  for (const Case& c : kCases) {
    SCOPED_TRACE(describe(c));
    const Inputs in(c);
    Outputs wanted(in);
    forward(plain, in, wanted);
    backward(plain, in, wanted, wanted);
    Outputs found(in);
    forward(context, in, found);
    backward(context, in, wanted, found);
    const Truth truth(in, wanted);
    truth.expect_forward(found);
    truth.expect_gradients(found);
    expect_sink_gradients(in, wanted, found);
    expect_sink_gradients(in, wanted, wanted);
  }
}

TEST(Attention, TheReferenceIsTheDefinition) {
  ThreadTeam team(1);
  for (const Case& c : kCases) {
    if (c.dtype != DType::f32 || c.sequence > 150 || c.width > 64) continue;
    SCOPED_TRACE(describe(c));
    const Inputs in(c);
    Outputs found(in);
    forward(ExecutionContext(team, Implementation::reference), in, found);
    const Plain plain(in);
    std::vector<double> o(static_cast<std::size_t>(c.width));
    for (std::int64_t vector = 0; vector < found.sums.elements(); ++vector) {
      double log_sum = 0;
      plain.attend(vector / c.heads, vector % c.heads, o.data(), log_sum);
      // Values stay doubles until they are stored.
      ASSERT_NEAR(found.sums.get(vector), log_sum, fp32_roundoff * std::abs(log_sum) + 1e-13) << vector;
      for (std::int64_t d = 0; d < c.width; ++d) {
        const double value = o[static_cast<std::size_t>(d)];
        ASSERT_NEAR(found.o.get(vector * c.width + d), value, fp32_roundoff * std::abs(value) + 1e-13) << vector << " " << d;
      }
    }
  }
}

// One key and a sink with the same score share the probability.
TEST(Attention, ASinkTakesItsShare) {
  Inputs in({1, 1, 1, 1, 4, DType::f32, 0, 1.0F, 0, 0, 0, true, true});
  double score = 0;
  for (std::int64_t d = 0; d < 4; ++d) score += in.q.get(d) * in.k.get(d);
  in.sinks.set(0, score);
  const Outputs out = run(in);
  for (std::int64_t d = 0; d < 4; ++d) EXPECT_NEAR(out.o.get(d), in.v.get(d) / 2, 1e-6);
  EXPECT_NEAR(out.sums.get(0), score + std::log(2.0), 1e-6);
}

TEST(Attention, LargeScoresStayFinite) {
  Case c{1, 80, 2, 1, 16, DType::f32, 0};
  c.scale = 3000.0F;
  const Inputs in(c);
  ThreadTeam team(1);
  Outputs wanted(in);
  forward(ExecutionContext(team, Implementation::reference), in, wanted);
  const Outputs found = run(in);
  // A score in the thousands has an error of 1e-3 and more in fp32, which is then the relative error of its exponential.
  Truth(in, wanted).expect_forward(found);
  for (std::int64_t i = 0; i < found.dk.elements(); ++i) ASSERT_TRUE(std::isfinite(found.dk.get(i))) << i;
}

// Later tiles of keys have higher scores, by less and by more than the fast kernel's slack, so that sums must be rescaled.
TEST(Attention, FollowsScoresThatRise) {
  constexpr double levels[] = {0, 2, 5, 25, 24, 80};
  for (const bool sinks : {false, true}) {
    Inputs in({1, 330, 2, 1, 16, DType::f32, 0, 0.5F, 0, 0, 0, true, sinks});
    for (std::int64_t i = 0; i < in.q.elements(); i += 16) in.q.set(i, 2);
    for (std::int64_t u = 0; u < 330; ++u) in.k.set(u * 16, levels[u / 64]);
    ThreadTeam team(2);
    Outputs wanted(in);
    forward(ExecutionContext(team, Implementation::reference), in, wanted);
    backward(ExecutionContext(team, Implementation::reference), in, wanted, wanted);
    Outputs found(in);
    forward(fast(team), in, found);
    backward(fast(team), in, wanted, found);
    const Truth truth(in, wanted);
    truth.expect_forward(found);
    truth.expect_gradients(found);
  }
}

TEST(Attention, OneTokenSeesItself) {
  const Inputs in({1, 1, 2, 1, 8, DType::f32, 0, 0.5F});
  const Outputs out = run(in);
  for (std::int64_t i = 0; i < 16; ++i) EXPECT_FLOAT_EQ(static_cast<float>(out.o.get(i)), static_cast<float>(in.v.get(i % 8)));
  double score = 0;
  for (std::int64_t d = 0; d < 8; ++d) score += in.q.get(d) * in.k.get(d) * 0.5;
  EXPECT_NEAR(out.sums.get(0), score, 1e-6);
  for (std::int64_t i = 0; i < 16; ++i) EXPECT_NEAR(out.dq.get(i), 0.0, 1e-6);
}

TEST(Attention, ZeroQueriesAverageWhatTheySee) {
  Inputs in({1, 100, 1, 1, 4, DType::f32, 30});
  for (std::int64_t i = 0; i < in.q.elements(); ++i) in.q.set(i, 0);
  const Outputs out = run(in);
  for (std::int64_t t = 0; t < 100; ++t) {
    const std::int64_t first = t / 30 * 30;
    for (std::int64_t d = 0; d < 4; ++d) {
      double mean = 0;
      for (std::int64_t u = first; u <= t; ++u) mean += in.v.get(u * 4 + d);
      EXPECT_NEAR(out.o.get(t * 4 + d), mean / static_cast<double>(t - first + 1), 1e-5) << t;
    }
    EXPECT_NEAR(out.sums.get(t), std::log(static_cast<double>(t - first + 1)), 1e-5) << t;
  }
}

TEST(Attention, AWindowOfOneTokenYieldsItsValue) {
  const Inputs in({1, 100, 2, 1, 8, DType::f32, 0, 0.5F, 1});
  const Outputs out = run(in);
  for (std::int64_t t = 0; t < 100; ++t)
    for (std::int64_t d = 0; d < 16; ++d)
      EXPECT_FLOAT_EQ(static_cast<float>(out.o.get(t * 16 + d)), static_cast<float>(in.v.get(t * 8 + d % 8)));
}

// Limits that exclude nothing do not change any bit.
TEST(Attention, AWindowAndAChunkAsLongAsTheRowAreNone) {
  const Outputs wanted = run(Inputs({2, 150, 2, 1, 16, DType::f32, 60}));
  for (const auto& [window, chunk] : {std::pair{150, 0}, {1000, 0}, {0, 150}, {0, 151}, {150, 4096}}) {
    Case c{2, 150, 2, 1, 16, DType::f32, 60};
    c.window = window;
    c.chunk = chunk;
    const Outputs found = run(Inputs(c));
    for (const auto member : {&Outputs::o, &Outputs::sums, &Outputs::dq, &Outputs::dk, &Outputs::dv})
      EXPECT_TRUE(same_bits(found.*member, wanted.*member)) << window << " " << chunk;
  }
}

// Key 0 is seen only by the first 100 queries and the tiles that contain them; later tiles do not even read it.
TEST(Attention, AWindowPassesOverTilesThatItDoesNotSee) {
  Inputs in({1, 256, 1, 1, 16, DType::f32, 0, 0.3F, 100});
  const Outputs before = run(in);
  in.v.set(0, std::numeric_limits<double>::quiet_NaN());
  in.k.set(0, std::numeric_limits<double>::quiet_NaN());
  const Outputs after = run(in);
  EXPECT_TRUE(std::isnan(after.o.get(60 * 16)));
  for (std::int64_t i = 192 * 16; i < 256 * 16; ++i) ASSERT_EQ(after.o.get(i), before.o.get(i)) << i;
}

TEST(Attention, PairsAreThoseThatMeet) {
  for (const std::int64_t sequence : {1, 7, 64, 100})
    for (const std::int64_t window : {0, 1, 5, 64, 200})
      for (const std::int64_t chunk : {0, 1, 9, 33, 500}) {
        double causal = 0, pairs = 0;
        for (std::int64_t t = 0; t < sequence; ++t)
          for (std::int64_t u = 0; u < sequence; ++u) {
            const bool meet = (window == 0 || std::abs(u - t) < window) && (chunk == 0 || u / chunk == t / chunk);
            if (meet) ++pairs;
            if (meet && u <= t) ++causal;
          }
        AttentionOptions options{.sequence = sequence, .window = window, .chunk = chunk};
        EXPECT_EQ(attention_pairs(options), causal) << sequence << " " << window << " " << chunk;
        options.causal = false;
        EXPECT_EQ(attention_pairs(options), pairs) << sequence << " " << window << " " << chunk;
      }
}

// On a GPU, with a head size that no library supports.
TEST(Attention, OneSegmentIsNotRead) {
  if (!on_device()) GTEST_SKIP() << "of a GPU alone";
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Case c{2, 150, 2, 1, 20, dtype, 0, 0.3F, 100};
    const Outputs wanted = run(Inputs(c));
    c.one_segment = true;
    Inputs in(c);
    for (std::int64_t t = 0; t < 300; ++t) in.segments.set(t, t * 7 % 5);
    const Outputs found = run(in);
    for (const auto member : {&Outputs::o, &Outputs::sums, &Outputs::dq, &Outputs::dk, &Outputs::dv})
      EXPECT_TRUE(same_bits(found.*member, wanted.*member));
  }
}

// Cases that a GPU's library may compute instead of our kernels. It rounds probabilities and their gradients to bf16 before it
// multiplies them.
TEST(Attention, RowsOfOneSegmentMatchReference) {
  ThreadTeam team(2);
  const ExecutionContext context = fast(team);
  const ExecutionContext plain(team, Implementation::reference);
  for (const auto& [sequence, width, kv_heads, causal] : {std::tuple{64, 64, 2, true},
                                                          {64, 128, 4, false},
                                                          {128, 128, 2, true},
                                                          {128, 64, 2, false},
                                                          {200, 64, 4, true},
                                                          {200, 128, 2, false}}) {
    const Case c{1, sequence, 4, kv_heads, width, DType::bf16, 0, 0.2F, 0, 0, 0, causal, false, true};
    SCOPED_TRACE(describe(c));
    const Inputs in(c);
    Outputs wanted(in);
    forward(plain, in, wanted);
    backward(plain, in, wanted, wanted);
    Outputs found(in);
    forward(context, in, found);
    backward(context, in, wanted, found);
    const Truth truth(in, wanted);
    truth.expect_forward(found);
    truth.expect_gradients(found);
  }
}

// Many tiles and heads concurrently: sums added in varying order would differ here.
TEST(Attention, RowsOfOneSegmentRepeat) {
  if (!on_device()) GTEST_SKIP() << "of a GPU alone";
  // Emulation on a CPU is slow.
  const std::int64_t scale = cuda_devices().front().name.find("mulated") == std::string::npos ? 8 : 1;
  const Inputs in({2, 70 * scale, 2 * scale, scale, 64, DType::bf16, 0, 0.1F, 0, 0, 0, true, false, true});
  const Outputs wanted = run(in);
  for (std::int64_t i = 0; i < scale; ++i) {
    const Outputs found = run(in);
    for (const auto member : {&Outputs::o, &Outputs::sums, &Outputs::dq, &Outputs::dk, &Outputs::dv})
      EXPECT_TRUE(same_bits(found.*member, wanted.*member));
  }
}

TEST(Attention, SameBitsForAnyThreadCount) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(describe(c));
    const Inputs in(c);
    const Outputs one = run(in, 1);
    for (const int threads : {2, 3}) {
      const Outputs many = run(in, threads);
      EXPECT_TRUE(same_bits(one.o, many.o));
      EXPECT_TRUE(same_bits(one.sums, many.sums));
      EXPECT_TRUE(same_bits(one.dq, many.dq));
      EXPECT_TRUE(same_bits(one.dk, many.dk));
      EXPECT_TRUE(same_bits(one.dv, many.dv));
      EXPECT_TRUE(same_bits(one.d_sinks, many.d_sinks));
    }
  }
}

TEST(Attention, GradientsAreSlopes) {
  ThreadTeam team(1);
  for (const Case& c :
       {Case{1, 70, 2, 1, 6, DType::f32, 40, 0.7F}, Case{1, 70, 2, 1, 6, DType::f32, 0, 2.0F, 9, 0, 2.0F},
        Case{1, 70, 2, 1, 6, DType::f32, 0, 0.7F, 0, 25}, Case{1, 20, 2, 1, 6, DType::f32, 0, 0.7F, 0, 0, 1.0F, false},
        Case{1, 70, 2, 1, 6, DType::f32, 40, 0.7F, 9, 25, 0, false}, Case{1, 30, 4, 2, 6, DType::f32, 0, 0.7F, 0, 0, 0, true, true}}) {
    SCOPED_TRACE(describe(c));
    const Inputs in(c);
    Outputs wanted(in);
    forward(ExecutionContext(team, Implementation::reference), in, wanted);
    backward(ExecutionContext(team, Implementation::reference), in, wanted, wanted);
    const Truth truth(in, wanted);
    Plain plain(in);
    // The reference reads o and a log-sum in fp32; besides its bounds, steps of 1e-4 leave an error of 1e-8 times a third
    // derivative below 10.
    const auto expect_slopes = [&](const Data& gradient, std::vector<double> Plain::*operand, auto&& exact) {
      for (std::int64_t i = 0; i < gradient.elements(); i += 7)
        EXPECT_NEAR(gradient.get(i), plain.slope(operand, i), (exact(i).high - exact(i).low) / 2 + 1e-7) << i;
    };
    expect_slopes(wanted.dq, &Plain::q, [&](std::int64_t i) { return truth.dq(i); });
    expect_slopes(wanted.dk, &Plain::k, [&](std::int64_t i) { return truth.dk(i); });
    expect_slopes(wanted.dv, &Plain::v, [&](std::int64_t i) { return truth.dv(i); });
    if (!c.sinks) continue;
    const Outputs before(in);
    for (std::int64_t h = 0; h < wanted.d_sinks.elements(); ++h)
      EXPECT_NEAR(wanted.d_sinks.get(h) - before.d_sinks.get(h), plain.slope(&Plain::sinks, h), 1e-6) << h;
  }
}

// Whether tokens [begin, end) have the same bits in both tensors; every token has `width` elements.
bool same_tokens(const Data& a, const Data& b, std::int64_t begin, std::int64_t end) {
  const auto width = static_cast<std::int64_t>((*a).bytes()) / (*a).shape[0];
  return std::memcmp((*a).data + begin * width, (*b).data + begin * width, static_cast<std::size_t>((end - begin) * width)) == 0;
}

void edit(Inputs& in, std::int64_t begin, std::int64_t end) {
  const auto change = [&](Data& data, double offset) {
    const std::int64_t width = data.elements() / (*data).shape[0];
    for (std::int64_t i = begin * width; i < end * width; ++i) data.set(i, data.get(i) * 50 + offset);
  };
  change(in.q, 3);
  change(in.k, -20);
  change(in.v, 1e6);
  change(in.d_o, 100);
}

TEST(Attention, ATokenChangesNothingBeforeIt) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::int64_t changed : {1, 5, 63, 64, 90, 139}) {
      Inputs in({1, 140, 2, 1, 16, dtype, 0});
      const Outputs before = run(in);
      edit(in, changed, changed + 1);
      const Outputs after = run(in);
      EXPECT_TRUE(same_tokens(before.o, after.o, 0, changed)) << changed;
      EXPECT_TRUE(same_tokens(before.sums, after.sums, 0, changed)) << changed;
      EXPECT_TRUE(same_tokens(before.dq, after.dq, 0, changed)) << changed;
      EXPECT_FALSE(same_tokens(before.o, after.o, changed, changed + 1)) << changed;
    }
}

TEST(Attention, ADocumentDoesNotTouchAnother) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Inputs in({2, 150, 2, 1, 16, dtype, 50});
    const Outputs before = run(in);
    edit(in, 50, 100);  // the second of six documents
    const Outputs after = run(in);
    for (const auto member : {&Outputs::o, &Outputs::sums, &Outputs::dq, &Outputs::dk, &Outputs::dv}) {
      EXPECT_TRUE(same_tokens(before.*member, after.*member, 0, 50));
      EXPECT_TRUE(same_tokens(before.*member, after.*member, 100, 300));
      EXPECT_FALSE(same_tokens(before.*member, after.*member, 50, 100));
    }
  }
}

// Whole tiles that cannot be seen are skipped, so not even a NaN comes out of them.
TEST(Attention, ANaNInAnotherTileStaysThere) {
  Inputs in({1, 192, 1, 1, 16, DType::f32, 64});
  const Outputs before = run(in);
  in.v.set(100 * 16, std::numeric_limits<double>::quiet_NaN());
  in.k.set(100 * 16, std::numeric_limits<double>::quiet_NaN());
  const Outputs after = run(in);
  EXPECT_TRUE(same_tokens(before.o, after.o, 0, 64));
  EXPECT_TRUE(same_tokens(before.o, after.o, 128, 192));
  EXPECT_TRUE(std::isnan(after.o.get(120 * 16)));
}

TEST(Attention, ARowDoesNotDependOnItsBatch) {
  Inputs batch({3, 70, 2, 1, 16, DType::f32, 0});
  Inputs alone({1, 70, 2, 1, 16, DType::f32, 0});
  const auto take = [](const Data& from, Data& to) { std::memcpy((*to).data, (*from).data + 2 * (*to).bytes(), (*to).bytes()); };
  take(batch.q, alone.q);
  take(batch.k, alone.k);
  take(batch.v, alone.v);
  const Outputs wanted = run(batch);
  const Outputs found = run(alone);
  EXPECT_EQ(std::memcmp((*found.o).data, (*wanted.o).data + 2 * (*found.o).bytes(), (*found.o).bytes()), 0);
}

TEST(Attention, PaddingIsFinite) {
  Inputs in({1, 100, 2, 1, 16, DType::bf16, 30});
  for (std::int64_t t = 60; t < 100; ++t) in.segments.set(t, 0);
  const Outputs out = run(in);
  for (const auto member : {&Outputs::o, &Outputs::dq, &Outputs::dk, &Outputs::dv})
    for (std::int64_t i = 0; i < (out.*member).elements(); ++i) ASSERT_TRUE(std::isfinite((out.*member).get(i))) << i;
}

TEST(Attention, AllocatesNothing) {
  MILLRACE_CPU_ONLY();
  const Inputs in({2, 100, 2, 1, 64, DType::bf16, 0});
  ThreadTeam team(2);
  const ExecutionContext context = fast(team);
  Outputs out(in);
  const Buffer scratch = scratch_of(context, in);
  const std::int64_t before = large_allocations();
  attention_forward(context, *in.q, *in.k, *in.v, *in.segments, in.options(), *out.o, *out.sums, scratch.bytes());
  attention_input_gradient(context, *in.d_o, *in.q, *in.k, *in.v, *out.o, *out.sums, *in.segments, in.options(), *out.dq, *out.dk, *out.dv,
                           scratch.bytes());
  EXPECT_EQ(large_allocations(), before);
}

TEST(Attention, RefusesWhatDoesNotFit) {
  ThreadTeam team(1);
  const ExecutionContext context = fast(team);
  const Inputs in({1, 10, 4, 2, 8, DType::f32, 0});
  Outputs out(in);
  const Buffer scratch = scratch_of(context, in);
  const auto call = [&](const Tensor& k, AttentionOptions options, Scratch memory) {
    return thrown([&] { attention_forward(context, *in.q, k, *in.v, *in.segments, options, *out.o, *out.sums, memory); });
  };
  EXPECT_EQ(call(*in.k, in.options(), scratch.bytes()), -1);
  const Data three_heads(DType::f32, {10, 3, 8});
  EXPECT_EQ(call(*three_heads, in.options(), scratch.bytes()), static_cast<int>(ExitCode::config));
  const Data other_type(DType::bf16, {10, 2, 8});
  EXPECT_EQ(call(*other_type, in.options(), scratch.bytes()), static_cast<int>(ExitCode::internal));
  EXPECT_EQ(call(*in.k, {.sequence = 4}, scratch.bytes()), static_cast<int>(ExitCode::internal));
  EXPECT_EQ(call(*in.k, {.sequence = 10, .window = -1}, scratch.bytes()), static_cast<int>(ExitCode::config));
  EXPECT_EQ(call(*in.k, {.sequence = 10, .head_dim = 4}, scratch.bytes()), static_cast<int>(ExitCode::internal));
  EXPECT_EQ(call(*in.k, in.options(), scratch.bytes().first(64)), static_cast<int>(ExitCode::internal));
}

}  // namespace
}  // namespace millrace::kernels::testing
