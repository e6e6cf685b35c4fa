#include "kernels/reference/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention.hpp"
#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

double dot(const Tensor& a, std::int64_t a_offset, const Tensor& b, std::int64_t b_offset, std::int64_t width) {
  double sum = 0;
  for (std::int64_t d = 0; d < width; ++d) sum += double{load(a, a_offset + d)} * load(b, b_offset + d);
  return sum;
}

// Sizes of one call, and where head vectors start.
struct Layout {
  Layout(const Tensor& q, const Tensor& k, AttentionOptions options)
      : tokens(q.shape[0]),
        heads(q.shape[1]),
        kv_heads(k.shape[1]),
        width(q.shape[2]),
        value_width(kernels::value_width(options, width)),
        sequence(options.sequence) {}
  [[nodiscard]] std::int64_t query(std::int64_t t, std::int64_t head) const { return (t * heads + head) * width; }
  [[nodiscard]] std::int64_t result(std::int64_t t, std::int64_t head) const { return (t * heads + head) * value_width; }
  [[nodiscard]] std::int64_t key(std::int64_t u, std::int64_t head) const { return (u * kv_heads + head / (heads / kv_heads)) * width; }
  [[nodiscard]] std::int64_t value(std::int64_t u, std::int64_t head) const {
    return (u * kv_heads + head / (heads / kv_heads)) * value_width;
  }
  [[nodiscard]] std::int64_t row_begin(std::int64_t t) const { return t / sequence * sequence; }
  std::int64_t tokens, heads, kv_heads, width, value_width, sequence;
};

// The keys of its row that a query may see, without regard to segments: [begin, end), counted from the row's first.
struct Seen {
  Seen(std::int64_t query, AttentionOptions options) : end(options.causal ? query + 1 : options.sequence) {
    if (options.window > 0) {
      begin = std::max(begin, query + 1 - options.window);
      end = std::min(end, query + options.window);
    }
    if (options.chunk > 0) {
      begin = std::max(begin, query / options.chunk * options.chunk);
      end = std::min(end, (query / options.chunk + 1) * options.chunk);
    }
  }
  std::int64_t begin = 0, end;
};

// Whether the query's choice of blocks has the key at this index of its row.
bool is_chosen(const Tensor* choice, const Layout& at, AttentionOptions options, std::int64_t t, std::int64_t head, std::int64_t key) {
  if (choice == nullptr) return true;
  const std::int64_t block = key / options.block;
  const std::int32_t word = choice->as<std::int32_t>()[(t * at.heads + head) * choice->shape[2] + block / 32];
  return (static_cast<std::uint32_t>(word) >> (block % 32) & 1U) != 0;
}

double capped(double score, AttentionOptions options) {
  return options.soft_cap > 0 ? options.soft_cap * std::tanh(score / options.soft_cap) : score;
}
// Derivative of the capped score with respect to the score, from the capped score.
double cap_gradient(double score, AttentionOptions options) {
  return options.soft_cap > 0 ? 1 - score / options.soft_cap * (score / options.soft_cap) : 1;
}

struct Operands {
  const Tensor &d_o, &q, &k, &v, &o, &log_sum_exp, &segments;
  const Tensor* choice;
};

// Adds one query's contribution to the sums of its row's keys (dk_sum [S, D], dv_sum [S, Dv]), and computes the query's own gradient.
void query_gradient(const Operands& x, const Layout& at, AttentionOptions options, std::int64_t t, std::int64_t h, double* dq_sum,
                    double* dk_sum, double* dv_sum) {
  const auto* segment = x.segments.as<std::int32_t>();
  const std::int64_t begin = at.row_begin(t);
  const Seen seen(t - begin, options);
  const double delta = dot(x.d_o, at.result(t, h), x.o, at.result(t, h), at.value_width);
  std::fill(dq_sum, dq_sum + at.width, 0.0);
  for (std::int64_t u = begin + seen.begin; u < begin + seen.end; ++u) {
    if (segment[u] != segment[t] || !is_chosen(x.choice, at, options, t, h, u - begin)) continue;
    const double score = capped(dot(x.q, at.query(t, h), x.k, at.key(u, h), at.width) * options.scale, options);
    const double p = std::exp(score - x.log_sum_exp.as<float>()[t * at.heads + h]);
    const double dp = dot(x.d_o, at.result(t, h), x.v, at.value(u, h), at.value_width);
    const double ds = p * (dp - delta) * cap_gradient(score, options) * options.scale;
    for (std::int64_t d = 0; d < at.value_width; ++d) dv_sum[(u - begin) * at.value_width + d] += p * load(x.d_o, at.result(t, h) + d);
    for (std::int64_t d = 0; d < at.width; ++d) {
      dk_sum[(u - begin) * at.width + d] += ds * load(x.q, at.query(t, h) + d);
      dq_sum[d] += ds * load(x.k, at.key(u, h) + d);
    }
  }
}

void attention_forward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& segments, AttentionOptions options, const Tensor& o,
                       const Tensor& log_sum_exp, Scratch scratch, const Tensor* sinks, const Tensor* choice) {
  const Layout at(q, k, options);
  const auto* segment = segments.as<std::int32_t>();
  auto* scores = reinterpret_cast<double*>(scratch.data());
  for (std::int64_t t = 0; t < at.tokens; ++t)
    for (std::int64_t h = 0; h < at.heads; ++h) {
      const std::int64_t begin = at.row_begin(t);
      const Seen seen(t - begin, options);
      const double sink = sinks == nullptr ? -std::numeric_limits<double>::infinity() : double{sinks->as<float>()[h]};
      const auto sees = [&](std::int64_t u) { return segment[u] == segment[t] && is_chosen(choice, at, options, t, h, u - begin); };
      double maximum = sink;
      for (std::int64_t u = begin + seen.begin; u < begin + seen.end; ++u) {
        if (!sees(u)) continue;
        scores[u - begin] = capped(dot(q, at.query(t, h), k, at.key(u, h), at.width) * options.scale, options);
        maximum = std::max(maximum, scores[u - begin]);
      }
      double sum = std::exp(sink - maximum);
      for (std::int64_t u = begin + seen.begin; u < begin + seen.end; ++u)
        if (sees(u)) sum += scores[u - begin] = std::exp(scores[u - begin] - maximum);
      for (std::int64_t d = 0; d < at.value_width; ++d) {
        double value = 0;
        for (std::int64_t u = begin + seen.begin; u < begin + seen.end; ++u)
          if (sees(u)) value += scores[u - begin] * load(v, at.value(u, h) + d);
        store(o, at.result(t, h) + d, static_cast<float>(value / sum));
      }
      log_sum_exp.as<float>()[t * at.heads + h] = static_cast<float>(maximum + std::log(sum));
    }
}

void attention_input_gradient(const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& o,
                              const Tensor& log_sum_exp, const Tensor& segments, AttentionOptions options, const Tensor& dq,
                              const Tensor& dk, const Tensor& dv, Scratch scratch, const Tensor* choice) {
  const Layout at(q, k, options);
  // Sums over one row and key/value head, in double: keys add query heads in order, and queries in order.
  const std::int64_t size = at.sequence * at.width, value_size = at.sequence * at.value_width;
  auto* dk_sum = reinterpret_cast<double*>(scratch.data());
  auto* dv_sum = dk_sum + size;
  auto* dq_sum = dv_sum + value_size;
  const std::int64_t group = at.heads / at.kv_heads;
  for (std::int64_t begin = 0; begin < at.tokens; begin += at.sequence)
    for (std::int64_t kv_head = 0; kv_head < at.kv_heads; ++kv_head) {
      std::fill(dk_sum, dq_sum, 0.0);
      for (std::int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h)
        for (std::int64_t t = begin; t < begin + at.sequence; ++t) {
          query_gradient({d_o, q, k, v, o, log_sum_exp, segments, choice}, at, options, t, h, dq_sum, dk_sum, dv_sum);
          for (std::int64_t d = 0; d < at.width; ++d) store(dq, at.query(t, h) + d, static_cast<float>(dq_sum[d]));
        }
      for (std::int64_t i = 0; i < size; ++i)
        store(dk, at.key(begin + i / at.width, kv_head * group) + i % at.width, static_cast<float>(dk_sum[i]));
      for (std::int64_t i = 0; i < value_size; ++i)
        store(dv, at.value(begin + i / at.value_width, kv_head * group) + i % at.value_width, static_cast<float>(dv_sum[i]));
    }
}

std::size_t attention_scratch_bytes(const Shape& /*q*/, const Shape& k, DType /*dtype*/, AttentionOptions options,
                                    const Processor& /*processor*/) {
  const std::int64_t both = k[2] + value_width(options, k[2]);
  return sizeof(double) * static_cast<std::size_t>(std::max<std::int64_t>(options.sequence, 1) * both + k[2] + options.sequence);
}

void attention_sink_gradient(const Tensor& d_o, const Tensor& o, const Tensor& log_sum_exp, const Tensor& sinks, const Tensor& d_sinks) {
  attention_sink_gradient_of_heads(d_o, o, log_sum_exp, sinks, 0, o.shape[1], d_sinks);
}

const InTable attention_in_table[] = {
    {Backend::reference, table::attention_forward, without_context<attention_forward>},
    {Backend::reference, table::attention_input_gradient, without_context<attention_input_gradient>},
    {Backend::reference, table::attention_sink_gradient, without_context<attention_sink_gradient>},
    {Backend::reference, table::attention_scratch_bytes, attention_scratch_bytes},
};

}  // namespace

void attention_sink_gradient_of_heads(const Tensor& d_o, const Tensor& o, const Tensor& log_sum_exp, const Tensor& sinks,
                                      std::int64_t begin, std::int64_t end, const Tensor& d_sinks) {
  const std::int64_t heads = o.shape[1], width = o.shape[2];
  for (std::int64_t head = begin; head < end; ++head) {
    double sum = 0;
    for (std::int64_t t = 0; t < o.shape[0]; ++t) {
      const std::int64_t vector = t * heads + head;
      sum +=
          std::exp(double{sinks.as<float>()[head]} - log_sum_exp.as<float>()[vector]) * dot(d_o, vector * width, o, vector * width, width);
    }
    d_sinks.as<float>()[head] -= static_cast<float>(sum);
  }
}

}  // namespace millrace::kernels::reference
