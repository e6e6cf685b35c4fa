#include "kernels/gated_delta_rule.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

/// The rule token by token, in double. Operands of one call, and where head vectors start.
struct Rule {
  const Tensor &q, &k, &v, &g, &beta, &segments;
  GatedDeltaRuleOptions options;
  std::int64_t key_heads = q.shape[1], value_heads = v.shape[1], head_k_dim = q.shape[2], head_v_dim = v.shape[2];
  std::int64_t group = value_heads / key_heads, size = head_k_dim * head_v_dim;

  [[nodiscard]] std::int64_t key(std::int64_t t, std::int64_t head) const { return (t * key_heads + head / group) * head_k_dim; }
  [[nodiscard]] std::int64_t value(std::int64_t t, std::int64_t head) const { return (t * value_heads + head) * head_v_dim; }
  [[nodiscard]] bool padding(std::int64_t t) const { return !options.one_segment && segments.as<std::int32_t>()[t] == 0; }
  [[nodiscard]] bool begins(std::int64_t t) const {
    const auto* segment = segments.as<std::int32_t>();
    return t % options.sequence == 0 || (!options.one_segment && options.reset_at_segments && segment[t] != segment[t - 1]);
  }
  [[nodiscard]] double k_at(std::int64_t t, std::int64_t head, std::int64_t i) const { return padding(t) ? 0 : load(k, key(t, head) + i); }
  [[nodiscard]] double q_at(std::int64_t t, std::int64_t head, std::int64_t i) const {
    return double{load(q, key(t, head) + i)} * options.scale;
  }
  [[nodiscard]] double beta_at(std::int64_t t, std::int64_t head) const { return beta.as<float>()[t * value_heads + head]; }
  /// The factor of the state before token t.
  [[nodiscard]] double decay(std::int64_t t, std::int64_t head) const {
    return begins(t) ? 0 : padding(t) ? 1 : std::exp(double{g.as<float>()[t * value_heads + head]});
  }
  /// v − Ω̄ᵀk of value feature j; `before` is the state before token t, which has decayed if `factor` says so.
  [[nodiscard]] double error(std::int64_t t, std::int64_t head, std::int64_t j, const double* before, double factor) const {
    double sum = padding(t) ? 0 : load(v, value(t, head) + j);
    for (std::int64_t i = 0; i < head_k_dim; ++i) sum -= factor * before[i * head_v_dim + j] * k_at(t, head, i);
    return sum;
  }
  /// The state after token t; may be the same memory.
  void advance(std::int64_t t, std::int64_t head, const double* before, double* after) const {
    const double factor = decay(t, head), rate = beta_at(t, head);
    for (std::int64_t j = 0; j < head_v_dim; ++j) {
      const double update = rate * error(t, head, j, before, factor);
      for (std::int64_t i = 0; i < head_k_dim; ++i)
        after[i * head_v_dim + j] = factor * before[i * head_v_dim + j] + k_at(t, head, i) * update;
    }
  }
};

void gated_delta_rule_forward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g, const Tensor& beta,
                              const Tensor& segments, GatedDeltaRuleOptions options, const Tensor& o, Scratch scratch) {
  const Rule at{q, k, v, g, beta, segments, options};
  auto* state = reinterpret_cast<double*>(scratch.data());
  for (std::int64_t head = 0; head < at.value_heads; ++head) {
    std::fill(state, state + at.size, 0.0);
    for (std::int64_t t = 0; t < q.shape[0]; ++t) {
      at.advance(t, head, state, state);
      for (std::int64_t j = 0; j < at.head_v_dim; ++j) {
        double sum = 0;
        for (std::int64_t i = 0; i < at.head_k_dim; ++i) sum += state[i * at.head_v_dim + j] * at.q_at(t, head, i);
        store(o, at.value(t, head) + j, static_cast<float>(sum));
      }
    }
  }
}

struct Gradients {
  const Tensor &d_o, &dv, &dg, &dbeta;
  double* dq;  // sums of one row and key head, [S, dk]
  double* dk;
  double* d_state;  // gradient of the state after the token, then before it
};

/// The step back over token t: `before` and `after` are the states around it.
void step_back(const Rule& at, const Gradients& to, std::int64_t t, std::int64_t head, const double* before, const double* after) {
  const double factor = at.decay(t, head), rate = at.beta_at(t, head);
  const std::int64_t width = at.head_v_dim, in_row = t % at.options.sequence * at.head_k_dim;
  const auto upstream = [&](std::int64_t j) { return double{load(to.d_o, at.value(t, head) + j)}; };
  for (std::int64_t i = 0; i < at.head_k_dim; ++i)
    for (std::int64_t j = 0; j < width; ++j) {
      to.d_state[i * width + j] += at.q_at(t, head, i) * upstream(j);
      to.dq[in_row + i] += after[i * width + j] * upstream(j) * at.options.scale;
    }
  double d_rate = 0, d_decay = 0;
  for (std::int64_t j = 0; j < width; ++j) {
    const double error = at.error(t, head, j, before, factor);
    double d_update = 0;
    for (std::int64_t i = 0; i < at.head_k_dim; ++i) d_update += to.d_state[i * width + j] * at.k_at(t, head, i);
    const double d_error = rate * d_update;
    d_rate += d_update * error;
    store(to.dv, at.value(t, head) + j, at.padding(t) ? 0.0F : static_cast<float>(d_error));
    for (std::int64_t i = 0; i < at.head_k_dim; ++i) {
      const std::int64_t ij = i * width + j;
      if (!at.padding(t)) to.dk[in_row + i] += to.d_state[ij] * rate * error - factor * before[ij] * d_error;
      const double d_decayed = to.d_state[ij] - at.k_at(t, head, i) * d_error;
      d_decay += d_decayed * factor * before[ij];
      to.d_state[ij] = factor * d_decayed;
    }
  }
  to.dbeta.as<float>()[t * at.value_heads + head] = static_cast<float>(d_rate);
  to.dg.as<float>()[t * at.value_heads + head] = at.padding(t) ? 0.0F : static_cast<float>(d_decay);
}

void gated_delta_rule_input_gradient(const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g,
                                     const Tensor& beta, const Tensor& segments, GatedDeltaRuleOptions options, const Tensor& dq,
                                     const Tensor& dk, const Tensor& dv, const Tensor& dg, const Tensor& dbeta, Scratch scratch) {
  const Rule at{q, k, v, g, beta, segments, options};
  const std::int64_t sequence = options.sequence, chunks = (sequence + gated_delta_rule_chunk - 1) / gated_delta_rule_chunk;
  auto* memory = reinterpret_cast<double*>(scratch.data());
  double* chunk_states = memory;                           // the state before each chunk
  double* token_states = chunk_states + chunks * at.size;  // the states around the tokens of one chunk
  double* d_state = token_states + (gated_delta_rule_chunk + 1) * at.size;
  double* dq_sum = d_state + at.size;
  double* dk_sum = dq_sum + sequence * at.head_k_dim;
  const Gradients to{d_o, dv, dg, dbeta, dq_sum, dk_sum, d_state};
  for (std::int64_t row = 0; row < q.shape[0]; row += sequence)
    for (std::int64_t key_head = 0; key_head < at.key_heads; ++key_head) {
      std::fill(dq_sum, dk_sum + sequence * at.head_k_dim, 0.0);
      for (std::int64_t head = key_head * at.group; head < (key_head + 1) * at.group; ++head) {
        std::fill(token_states, token_states + at.size, 0.0);
        for (std::int64_t t = 0; t < sequence; ++t) {
          if (t % gated_delta_rule_chunk == 0) std::copy_n(token_states, at.size, chunk_states + t / gated_delta_rule_chunk * at.size);
          at.advance(row + t, head, token_states, token_states);
        }
        std::fill(d_state, d_state + at.size, 0.0);
        for (std::int64_t chunk = chunks - 1; chunk >= 0; --chunk) {
          const std::int64_t first = chunk * gated_delta_rule_chunk, count = std::min(gated_delta_rule_chunk, sequence - first);
          std::copy_n(chunk_states + chunk * at.size, at.size, token_states);
          for (std::int64_t t = 0; t < count; ++t)
            at.advance(row + first + t, head, token_states + t * at.size, token_states + (t + 1) * at.size);
          for (std::int64_t t = count - 1; t >= 0; --t)
            step_back(at, to, row + first + t, head, token_states + t * at.size, token_states + (t + 1) * at.size);
        }
      }
      for (std::int64_t t = 0; t < sequence; ++t)
        for (std::int64_t i = 0; i < at.head_k_dim; ++i) {
          store(dq, at.key(row + t, key_head * at.group) + i, static_cast<float>(dq_sum[t * at.head_k_dim + i]));
          store(dk, at.key(row + t, key_head * at.group) + i, static_cast<float>(dk_sum[t * at.head_k_dim + i]));
        }
    }
}

std::size_t gated_delta_rule_forward_scratch_bytes(const Shape& q, const Shape& v, GatedDeltaRuleOptions /*options*/,
                                                   const Processor& /*processor*/) {
  return static_cast<std::size_t>(q[2] * v[2]) * sizeof(double);
}

std::size_t gated_delta_rule_gradient_scratch_bytes(const Shape& q, const Shape& v, GatedDeltaRuleOptions options,
                                                    const Processor& /*processor*/) {
  const std::int64_t chunks = (options.sequence + gated_delta_rule_chunk - 1) / gated_delta_rule_chunk;
  return static_cast<std::size_t>((chunks + gated_delta_rule_chunk + 2) * q[2] * v[2] + 2 * options.sequence * q[2]) * sizeof(double);
}

const InTable gated_delta_rule_in_table[] = {
    {Backend::reference, table::gated_delta_rule_forward, without_context<gated_delta_rule_forward>},
    {Backend::reference, table::gated_delta_rule_input_gradient, without_context<gated_delta_rule_input_gradient>},
    {Backend::reference, table::gated_delta_rule_forward_scratch_bytes, gated_delta_rule_forward_scratch_bytes},
    {Backend::reference, table::gated_delta_rule_gradient_scratch_bytes, gated_delta_rule_gradient_scratch_bytes},
};

}  // namespace
}  // namespace millrace::kernels::reference
