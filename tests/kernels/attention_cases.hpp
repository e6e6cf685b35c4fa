#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/attention.hpp"
#include "kernels/base/cpu_features.hpp"
#include "kernels/choose_blocks.hpp"
#include "tests/kernels/fixture.hpp"

/// The cases of attention's tests: shapes and masks, operands, what the definition gives for them in double precision, and how far a
/// kernel may be from that.
namespace millrace::kernels::testing {

struct AttentionCase {
  std::int64_t rows, sequence, heads, kv_heads, width;
  DType dtype;
  std::int64_t document;  // tokens per segment; 0: one segment per row
  float scale = 0.3F;
  std::int64_t window = 0, chunk = 0;
  float soft_cap = 0;
  bool causal = true;
  bool sinks = false;
  bool one_segment = false;
  std::int64_t value_width = 0;  // 0: as width
  std::int64_t block = 0, blocks = 0;

  [[nodiscard]] std::int64_t values() const { return value_width == 0 ? width : value_width; }
};

inline std::string describe(const AttentionCase& c) {
  return fmt::format("B={} S={} H={} K={} D={} Dv={} {} documents of {} window {} chunk {} soft cap {} causal {} {} blocks of {}", c.rows,
                     c.sequence, c.heads, c.kv_heads, c.width, c.values(), to_string(c.dtype), c.document, c.window, c.chunk, c.soft_cap,
                     c.causal, c.blocks, c.block);
}

// The operands of one case, with gradients of the outputs.
struct Inputs {
  explicit Inputs(const AttentionCase& c)
      : shape(c),
        q(c.dtype, {c.rows * c.sequence, c.heads, c.width}, 11),
        k(c.dtype, {c.rows * c.sequence, c.kv_heads, c.width}, 12),
        v(c.dtype, {c.rows * c.sequence, c.kv_heads, c.values()}, 13),
        d_o(c.dtype, {c.rows * c.sequence, c.heads, c.values()}, 14),
        segments(DType::i32, {c.rows * c.sequence}),
        sinks(DType::f32, {c.heads}, 15, 2.0F),
        choice(DType::i32, {c.rows * c.sequence, c.heads, c.block == 0 ? 1 : choice_words(c.sequence, c.block)}) {
    for (std::int64_t t = 0; t < segments.elements(); ++t) segments.set(t, c.document == 0 ? 1 : 1 + t % c.sequence / c.document);
    if (c.block == 0) return;
    ThreadTeam team(1);
    const ExecutionContext context(team, Implementation::reference);
    const ChooseBlocksOptions form{.sequence = c.sequence, .block = c.block, .blocks = c.blocks};
    const Buffer scratch = testing::scratch_of(context, choose_blocks_scratch_bytes((*k).shape, form, context.processor()));
    choose_blocks(context, *q, *k, form, *choice, scratch.bytes());
  }
  [[nodiscard]] AttentionOptions options() const {
    return {.sequence = shape.sequence,
            .v_head_dim = shape.value_width,
            .scale = shape.scale,
            .soft_cap = shape.soft_cap,
            .window = shape.window,
            .chunk = shape.chunk,
            .causal = shape.causal,
            .one_segment = shape.one_segment,
            .block = shape.block,
            .blocks = shape.blocks};
  }
  [[nodiscard]] bool has(std::int64_t t, std::int64_t head, std::int64_t key) const {
    if (shape.block == 0) return true;
    const std::int64_t block = key / shape.block, words = (*choice).shape[2];
    return ((*choice).as<std::uint32_t>()[(t * shape.heads + head) * words + block / 32] >> (block % 32) & 1U) != 0;
  }
  AttentionCase shape;
  Data q, k, v, d_o, segments, sinks, choice;
};

struct Outputs {
  explicit Outputs(const Inputs& in)
      : o((*in.q).dtype, (*in.d_o).shape),
        sums(DType::f32, {(*in.q).shape[0], (*in.q).shape[1]}),
        dq((*in.q).dtype, (*in.q).shape),
        dk((*in.k).dtype, (*in.k).shape),
        dv((*in.k).dtype, (*in.v).shape),
        d_sinks(DType::f32, {(*in.q).shape[1]}, 16) {}
  Data o, sums, dq, dk, dv, d_sinks;
};

inline Buffer scratch_of(const ExecutionContext& context, const Inputs& in) {
  return testing::scratch_of(context,
                             attention_scratch_bytes((*in.q).shape, (*in.k).shape, (*in.q).dtype, in.options(), context.processor()));
}

inline void forward(const ExecutionContext& context, const Inputs& in, Outputs& out) {
  const Buffer scratch = scratch_of(context, in);
  const Tensor sinks = *in.sinks, choice = *in.choice;
  attention_forward(context, *in.q, *in.k, *in.v, *in.segments, in.options(), *out.o, *out.sums, scratch.bytes(),
                    in.shape.sinks ? &sinks : nullptr, in.shape.block > 0 ? &choice : nullptr);
}

inline void backward(const ExecutionContext& context, const Inputs& in, const Outputs& saved, Outputs& out) {
  const Buffer scratch = scratch_of(context, in);
  const Tensor choice = *in.choice;
  attention_input_gradient(context, *in.d_o, *in.q, *in.k, *in.v, *saved.o, *saved.sums, *in.segments, in.options(), *out.dq, *out.dk,
                           *out.dv, scratch.bytes(), in.shape.block > 0 ? &choice : nullptr);
  if (in.shape.sinks) attention_sink_gradient(context, *in.d_o, *saved.o, *saved.sums, *in.sinks, *out.d_sinks);
}

inline Outputs run(const Inputs& in, int threads = 1) {
  ThreadTeam team(threads);
  const ExecutionContext context = fast(team);
  Outputs out(in);
  forward(context, in, out);
  backward(context, in, out, out);
  return out;
}

/// Calls both kernels and expects that neither allocates.
inline void expect_no_allocations(const AttentionCase& c) {
  const Inputs in(c);
  ThreadTeam team(2);
  const ExecutionContext context = fast(team);
  const Outputs out(in);
  const Buffer scratch = scratch_of(context, in);
  const std::int64_t before = large_allocations();
  attention_forward(context, *in.q, *in.k, *in.v, *in.segments, in.options(), *out.o, *out.sums, scratch.bytes());
  attention_input_gradient(context, *in.d_o, *in.q, *in.k, *in.v, *out.o, *out.sums, *in.segments, in.options(), *out.dq, *out.dk, *out.dv,
                           scratch.bytes());
  EXPECT_EQ(large_allocations(), before);
}

using tests::around;
using tests::fp32_roundoff;
using tests::Interval;
using tests::roundings;

/// Euclidean length of each head vector.
inline std::vector<double> lengths(const Data& x) {
  const std::int64_t width = (*x).shape[2];
  std::vector<double> result;
  for (std::int64_t i = 0; i < x.elements(); i += width) {
    double squares = 0;
    for (std::int64_t d = i; d < i + width; ++d) squares += x.at(d) * x.at(d);
    result.push_back(std::sqrt(squares));
  }
  return result;
}
inline double longest_vector(const Data& x) { return std::ranges::max(lengths(x)); }

inline void copy_to(Data& to, const Data& from) {
  for (std::int64_t i = 0; i < from.elements(); ++i) to.set(i, from.get(i));
}

/// The reference's results before they are stored, with error bounds for fp32 arithmetic. The magnitudes of the summed terms are
/// attentions themselves: with |v|, |k| or |dO| in place of v or dO, whose width is then that of k.
class Truth {
 public:
  /// `saved`: the outputs that the gradients read.
  Truth(const Inputs& in, const Outputs& saved)
      : in_(in), wide_(in_fp32(in)), exact_(wide_), seen_v_(wide_), seen_k_(square()), seen_do_(wide_), seen_q_(square()) {
    ThreadTeam team(1);
    const ExecutionContext context(team, Implementation::reference);
    Outputs kept(wide_);
    copy_to(kept.o, saved.o);
    copy_to(kept.sums, saved.sums);
    forward(context, wide_, exact_);
    backward(context, wide_, kept, exact_);
    const auto run = [&](const Data& v, const Data& d_o, Outputs& out, bool back) {
      Inputs other = (*v).shape == (*wide_.v).shape ? wide_ : square();
      copy_to(other.v, v);
      copy_to(other.d_o, d_o);
      if (back) {
        Outputs before(other);  // only dv is read, which does not depend on o
        copy_to(before.sums, saved.sums);
        backward(context, other, before, out);
      } else
        forward(context, other, out);
    };
    run(magnitudes(in.v), wide_.d_o, seen_v_, false);
    run(magnitudes(in.k), wide_.q, seen_k_, false);
    run(wide_.v, magnitudes(in.d_o), seen_do_, true);
    lengths_of_do_ = lengths(wide_.d_o);
    Data weighted_q = magnitudes(in.q);
    for (std::int64_t i = 0; i < weighted_q.elements(); ++i) weighted_q.set(i, weighted_q.get(i) * length_of_do(i));
    run(magnitudes(in.k), weighted_q, seen_q_, true);
    follow_errors(longest_vector(saved.o));
  }

  [[nodiscard]] Interval o(std::int64_t i) const {
    return around(exact_.o.at(i), (2 * probability_ + factor_ + roundings(keys_ + 8)) * seen_v_.o.at(i));
  }
  [[nodiscard]] Interval sums(std::int64_t i) const {
    return around(exact_.sums.at(i), probability_ + roundings(keys_) + roundings(3) * std::abs(exact_.sums.at(i)));
  }
  [[nodiscard]] Interval dv(std::int64_t i) const {
    return around(exact_.dv.at(i), (probability_ + factor_ + roundings(queries_ + 1)) * seen_do_.dv.at(i));
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
    AttentionCase wide = in.shape;
    wide.dtype = DType::f32;
    Inputs result(wide);
    for (const auto member : {&Inputs::q, &Inputs::k, &Inputs::v, &Inputs::d_o, &Inputs::segments, &Inputs::sinks, &Inputs::choice})
      copy_to(result.*member, in.*member);
    return result;
  }
  /// The operands with values as wide as keys.
  [[nodiscard]] Inputs square() const {
    AttentionCase same = wide_.shape;
    same.value_width = 0;
    Inputs result(same);
    for (const auto member : {&Inputs::q, &Inputs::k, &Inputs::segments, &Inputs::sinks, &Inputs::choice})
      copy_to(result.*member, wide_.*member);
    return result;
  }
  /// Length of the head vector of dO at the token and head of q's element i.
  [[nodiscard]] double length_of_do(std::int64_t i) const { return lengths_of_do_[static_cast<std::size_t>(i / in_.shape.width)]; }
  void follow_errors(double longest_o) {
    constexpr double u = fp32_roundoff;
    const AttentionCase& c = in_.shape;
    const auto width = static_cast<double>(c.width), values = static_cast<double>(c.values());
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
    // A processor that multiplies bf16 does so with probabilities and gradients of scores, but sums of probabilities are those before they
    // are rounded.
    if (!on_device() && c.dtype == DType::bf16 && cpu_features().fast_bf16()) factor_ = tests::bf16_roundoff;
    slope_ = probability_ + by_cap + factor_ + roundings(values + 3);
    slope_size_ = static_cast<double>(c.scale) * (longest_vector(wide_.v) + longest_o);
  }

  const Inputs& in_;
  Inputs wide_;
  Outputs exact_, seen_v_, seen_k_, seen_do_, seen_q_;
  std::vector<double> lengths_of_do_;
  double keys_ = 0, queries_ = 0;
  double probability_ = 0;  // relative error of a probability
  double factor_ = 0;       // the error that is added when it is rounded as the factor of a product
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
        sinks(doubles(in.sinks)),
        inputs(in) {}

  static std::vector<double> doubles(const Data& data) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < data.elements(); ++i) values.push_back(data.get(i));
    return values;
  }
  [[nodiscard]] bool sees(std::int64_t t, std::int64_t head, std::int64_t u) const {
    if (t / c.sequence != u / c.sequence || segments[static_cast<std::size_t>(t)] != segments[static_cast<std::size_t>(u)]) return false;
    const std::int64_t query = t % c.sequence, key = u % c.sequence;
    if (c.causal && key > query) return false;
    if (c.window > 0 && std::abs(query - key) >= c.window) return false;
    return (c.chunk == 0 || query / c.chunk == key / c.chunk) && inputs.has(t, head, key);
  }
  void attend(std::int64_t t, std::int64_t head, double* o, double& log_sum) const {
    const std::int64_t kv_head = head * c.kv_heads / c.heads;
    double sum = c.sinks ? std::exp(sinks[static_cast<std::size_t>(head)]) : 0;
    std::fill_n(o, c.values(), 0.0);
    for (std::int64_t u = t / c.sequence * c.sequence; u < (t / c.sequence + 1) * c.sequence; ++u) {
      if (!sees(t, head, u)) continue;
      const double *query = q.data() + (t * c.heads + head) * c.width, *key = k.data() + (u * c.kv_heads + kv_head) * c.width;
      const double* value = v.data() + (u * c.kv_heads + kv_head) * c.values();
      double score = 0;
      for (std::int64_t d = 0; d < c.width; ++d) score += query[d] * key[d];
      score *= static_cast<double>(c.scale);
      if (c.soft_cap > 0) score = static_cast<double>(c.soft_cap) * std::tanh(score / static_cast<double>(c.soft_cap));
      const double weight = std::exp(score);
      sum += weight;
      for (std::int64_t d = 0; d < c.values(); ++d) o[d] += weight * value[d];
    }
    for (std::int64_t d = 0; d < c.values(); ++d) o[d] /= sum;
    log_sum = std::log(sum);
  }
  /// Σ o·dO, whose derivatives the gradients are.
  [[nodiscard]] double objective() const {
    std::vector<double> o(static_cast<std::size_t>(c.values()));
    double sum = 0, log_sum = 0;
    for (std::int64_t t = 0; t < c.rows * c.sequence; ++t)
      for (std::int64_t head = 0; head < c.heads; ++head) {
        attend(t, head, o.data(), log_sum);
        for (std::int64_t d = 0; d < c.values(); ++d)
          sum += o[static_cast<std::size_t>(d)] * d_o[static_cast<std::size_t>((t * c.heads + head) * c.values() + d)];
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

  AttentionCase c;
  std::vector<double> q, k, v, d_o, segments, sinks;
  const Inputs& inputs;  // whose choice stays as it is, whatever q and k become
};

const AttentionCase kAttentionCases[] = {
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
    // values narrower and wider than keys: alone, in documents, with windows, chunks, caps and sinks, to both sides
    {1, 1, 1, 1, 12, DType::f32, 0, 0.3F, 0, 0, 0, true, false, false, 7},
    {2, 65, 4, 2, 12, DType::f32, 30, 0.3F, 0, 0, 0, true, false, false, 7},
    {1, 130, 2, 1, 7, DType::f32, 0, 0.3F, 0, 0, 0, true, false, false, 12},
    {1, 64, 2, 2, 1, DType::f32, 0, 0.3F, 0, 0, 0, true, false, false, 3},
    {1, 150, 2, 1, 24, DType::f32, 0, 0.3F, 40, 0, 0, true, true, false, 16},
    {1, 130, 2, 2, 24, DType::bf16, 50, 0.3F, 0, 40, 5, true, true, false, 16},
    {1, 200, 2, 1, 16, DType::f32, 0, 0.3F, 30, 70, 1.5F, false, true, false, 40},
    {1, 70, 2, 1, 33, DType::bf16, 0, 0.3F, 0, 0, 0, true, false, false, 1},
    {1, 128, 2, 1, 64, DType::bf16, 0, 0.2F, 0, 0, 0, true, false, true, 32},
    // those of multi-head latent attention, and others that a GPU pads to 192 and 128 or to 256
    {1, 70, 2, 1, 192, DType::f32, 0, 0.1F, 0, 0, 0, true, false, false, 128},
    {1, 140, 2, 2, 192, DType::bf16, 65, 0.1F, 0, 0, 0, true, false, false, 128},
    {1, 70, 2, 1, 140, DType::f32, 30, 0.1F, 20, 0, 5, true, true, false, 20},
    {1, 100, 2, 1, 140, DType::bf16, 0, 0.1F, 30, 0, 5, false, true, false, 20},
    {1, 100, 2, 1, 100, DType::bf16, 40, 0.1F, 0, 0, 0, true, false, false, 200},
    {1, 40, 2, 1, 200, DType::f32, 0, 0.1F, 0, 0, 0, true, false, false, 100},
    // chosen blocks: of one key, less than a tile, a tile, more; more than 32 of them; alone and with everything else
    {1, 1, 1, 1, 8, DType::f32, 0, 0.3F, 0, 0, 0, true, false, false, 0, 4, 2},
    {2, 17, 4, 2, 6, DType::f32, 9, 0.3F, 0, 0, 0, true, false, false, 0, 4, 2},
    {1, 130, 2, 1, 16, DType::f32, 0, 0.3F, 0, 0, 0, true, false, false, 0, 1, 5},
    {1, 330, 4, 2, 13, DType::f32, 0, 0.3F, 0, 0, 0, true, false, false, 0, 7, 3},
    {2, 300, 2, 2, 24, DType::f32, 110, 0.3F, 0, 0, 0, true, false, false, 0, 64, 2},
    {1, 500, 2, 1, 16, DType::f32, 0, 0.3F, 0, 0, 0, true, false, false, 0, 100, 2},
    {1, 300, 3, 1, 20, DType::f32, 0, 0.3F, 0, 0, 0, true, false, true, 0, 50, 1},
    {1, 200, 2, 1, 16, DType::f32, 70, 2.0F, 90, 0, 1.5F, true, true, false, 24, 16, 3},
    {1, 200, 2, 1, 16, DType::f32, 0, 0.3F, 0, 70, 0, true, false, false, 0, 16, 3},
    {1, 260, 4, 2, 64, DType::bf16, 0, 0.2F, 0, 0, 0, true, false, false, 0, 32, 3},
    {2, 150, 2, 1, 77, DType::bf16, 60, 0.3F, 0, 0, 5, true, true, false, 0, 20, 4},
    {1, 90, 2, 1, 140, DType::bf16, 0, 0.1F, 0, 0, 0, true, false, false, 20, 8, 3},
};

/// −Σ exp(sink − log sum)·(dO·o) plus the previous value: sums of D products and of as many tokens.
inline void expect_sink_gradients(const Inputs& in, const Outputs& saved, const Outputs& found) {
  const AttentionCase& c = in.shape;
  const Outputs before(in);
  EXPECT_TRUE(lies_within(found.d_sinks, [&](std::int64_t head) {
    double sum = before.d_sinks.at(head), size = std::abs(sum);
    for (std::int64_t t = 0; c.sinks && t < c.rows * c.sequence; ++t)
      for (std::int64_t d = 0; d < c.values(); ++d) {
        const std::int64_t i = (t * c.heads + head) * c.values() + d;
        const double term = std::exp(in.sinks.at(head) - saved.sums.at(t * c.heads + head)) * in.d_o.at(i) * saved.o.at(i);
        sum -= term;
        size += std::abs(term);
      }
    return around(sum, c.sinks ? roundings(static_cast<double>(c.rows * c.sequence + c.values()) + 8) * size : 0);
  }));
}

}  // namespace millrace::kernels::testing
