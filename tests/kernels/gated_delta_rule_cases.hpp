#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/gated_delta_rule.hpp"
#include "tests/kernels/fixture.hpp"

/// The cases of the gated delta rule's tests: shapes and decays, operands, and what the recurrence gives for them in double precision,
/// token by token.
namespace millrace::kernels::testing {

struct DeltaCase {
  std::int64_t rows, sequence, key_heads, group, head_k_dim, head_v_dim;
  DType dtype = DType::f32;
  std::int64_t document = 0;  // tokens per segment; 0: one segment per row
  double decay = 0.3;         // g is uniform in [−decay, 0]; below 0: of every token
  double beta = -1;           // of every token; below 0: uniform in [0, 1]
  std::int64_t padding = 0;   // tokens at a row's end
  bool reset = true;
  bool one_segment = false;

  [[nodiscard]] std::int64_t tokens() const { return rows * sequence; }
  [[nodiscard]] std::int64_t value_heads() const { return key_heads * group; }
  [[nodiscard]] GatedDeltaRuleOptions options() const {
    return {.sequence = sequence,
            .head_k_dim = head_k_dim,
            .head_v_dim = head_v_dim,
            .scale = 0.6F,
            .reset_at_segments = reset,
            .one_segment = one_segment};
  }
};

inline std::string describe(const DeltaCase& c) {
  return fmt::format("B={} S={} Hk={} Hv={} dk={} dv={} {} documents of {} decay {} beta {} padding {} reset {}", c.rows, c.sequence,
                     c.key_heads, c.value_heads(), c.head_k_dim, c.head_v_dim, to_string(c.dtype), c.document, c.decay, c.beta, c.padding,
                     c.reset);
}

/// The operands of one case, with the gradient of the result. Queries and keys have length 1.
struct DeltaInputs {
  explicit DeltaInputs(const DeltaCase& c)
      : shape(c),
        q(unit(c, 11)),
        k(unit(c, 12)),
        v(c.dtype, {c.tokens(), c.value_heads(), c.head_v_dim}, 13),
        d_o(c.dtype, {c.tokens(), c.value_heads(), c.head_v_dim}, 14),
        g(DType::f32, {c.tokens(), c.value_heads()}, 15),
        beta(DType::f32, {c.tokens(), c.value_heads()}, 16),
        segments(DType::i32, {c.tokens()}) {
    for (std::int64_t i = 0; i < g.elements(); ++i) {
      g.set(i, c.decay < 0 ? c.decay : -c.decay * (g.at(i) + 1) / 2);
      beta.set(i, c.beta >= 0 ? c.beta : (beta.at(i) + 1) / 2);
    }
    for (std::int64_t t = 0; t < c.tokens(); ++t) {
      const std::int64_t place = t % c.sequence;
      segments.set(t, place >= c.sequence - c.padding ? 0 : c.document == 0 ? 1 : 1 + static_cast<double>(place / c.document));
    }
  }
  static Data unit(const DeltaCase& c, std::uint64_t seed) {
    Data x(c.dtype, {c.tokens(), c.key_heads, c.head_k_dim}, seed);
    for (std::int64_t first = 0; first < x.elements(); first += c.head_k_dim) {
      double squares = 1e-6;
      for (std::int64_t i = first; i < first + c.head_k_dim; ++i) squares += x.at(i) * x.at(i);
      for (std::int64_t i = first; i < first + c.head_k_dim; ++i) x.set(i, x.at(i) / std::sqrt(squares));
    }
    return x;
  }
  DeltaCase shape;
  Data q, k, v, d_o, g, beta, segments;
};

struct DeltaOutputs {
  explicit DeltaOutputs(const DeltaInputs& in)
      : o(in.shape.dtype, (*in.v).shape),
        dq(in.shape.dtype, (*in.q).shape),
        dk(in.shape.dtype, (*in.q).shape),
        dv(in.shape.dtype, (*in.v).shape),
        dg(DType::f32, (*in.g).shape),
        dbeta(DType::f32, (*in.g).shape) {}
  Data o, dq, dk, dv, dg, dbeta;
};
inline constexpr std::array delta_results = {&DeltaOutputs::o,  &DeltaOutputs::dq, &DeltaOutputs::dk,
                                             &DeltaOutputs::dv, &DeltaOutputs::dg, &DeltaOutputs::dbeta};

inline DeltaOutputs run(const ExecutionContext& context, const DeltaInputs& in, bool gradients = true) {
  DeltaOutputs out(in);
  const auto options = in.shape.options();
  const Buffer scratch =
      scratch_of(context, std::max(gated_delta_rule_forward_scratch_bytes((*in.q).shape, (*in.v).shape, options, context.processor()),
                                   gated_delta_rule_gradient_scratch_bytes((*in.q).shape, (*in.v).shape, options, context.processor())));
  gated_delta_rule_forward(context, *in.q, *in.k, *in.v, *in.g, *in.beta, *in.segments, options, *out.o, scratch.bytes());
  if (gradients)
    gated_delta_rule_input_gradient(context, *in.d_o, *in.q, *in.k, *in.v, *in.g, *in.beta, *in.segments, options, *out.dq, *out.dk,
                                    *out.dv, *out.dg, *out.dbeta, scratch.bytes());
  wait();
  return out;
}

/// The recurrence that kernels/gated_delta_rule.hpp states, and slopes of Σ dO·o.
struct PlainDelta {
  explicit PlainDelta(const DeltaInputs& in) : c(in.shape) {
    const auto copy = [](const Data& from) {
      std::vector<double> to;
      for (std::int64_t i = 0; i < from.elements(); ++i) to.push_back(from.get(i));
      return to;
    };
    q = copy(in.q), k = copy(in.k), v = copy(in.v), d_o = copy(in.d_o), g = copy(in.g), beta = copy(in.beta), segments = copy(in.segments);
  }

  [[nodiscard]] std::vector<double> forward() const {
    std::vector<double> o(v.size());
    std::vector<double> state(at(c.head_k_dim * c.head_v_dim));
    for (std::int64_t head = 0; head < c.value_heads(); ++head)
      for (std::int64_t t = 0; t < c.tokens(); ++t) {
        const bool padding = !c.one_segment && segments[at(t)] == 0;
        const bool border = !c.one_segment && c.reset && t > 0 && segments[at(t)] != segments[at(t - 1)];
        if (t % c.sequence == 0 || border) std::fill(state.begin(), state.end(), 0.0);
        const std::int64_t key = (t * c.key_heads + head / c.group) * c.head_k_dim, number = t * c.value_heads() + head;
        if (!padding) {
          for (double& entry : state) entry *= std::exp(g[at(number)]);
          for (std::int64_t j = 0; j < c.head_v_dim; ++j) {
            double error = v[at(number * c.head_v_dim + j)];
            for (std::int64_t i = 0; i < c.head_k_dim; ++i) error -= state[at(i * c.head_v_dim + j)] * k[at(key + i)];
            for (std::int64_t i = 0; i < c.head_k_dim; ++i) state[at(i * c.head_v_dim + j)] += k[at(key + i)] * beta[at(number)] * error;
          }
        }
        for (std::int64_t j = 0; j < c.head_v_dim; ++j)
          for (std::int64_t i = 0; i < c.head_k_dim; ++i)
            o[at(number * c.head_v_dim + j)] += 0.6F * q[at(key + i)] * state[at(i * c.head_v_dim + j)];
      }
    return o;
  }

  double slope(std::vector<double> PlainDelta::*operand, std::int64_t i) {
    constexpr double step = 1e-5;
    double& value = (this->*operand)[at(i)];
    const double before = value;
    const auto objective = [&](double changed) {
      value = changed;
      const auto o = forward();
      double sum = 0;
      for (std::size_t n = 0; n < o.size(); ++n) sum += o[n] * d_o[n];
      return sum;
    };
    const double above = objective(before + step), below = objective(before - step);
    value = before;
    return (above - below) / (2 * step);
  }

  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
  DeltaCase c;
  std::vector<double> q, k, v, d_o, g, beta, segments;
};

}  // namespace millrace::kernels::testing
