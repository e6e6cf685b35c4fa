#include "kernels/sparse_attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

double dot(const Tensor& a, std::int64_t a_offset, const Tensor& b, std::int64_t b_offset, std::int64_t width) {
  double sum = 0;
  for (std::int64_t d = 0; d < width; ++d) sum += double{load(a, a_offset + d)} * load(b, b_offset + d);
  return sum;
}

/// Sizes of one call, and where head vectors start.
struct Layout {
  Layout(const Tensor& q, const Tensor& k, const Tensor& keys, SparseAttentionOptions options)
      : tokens(q.shape[0]),
        heads(q.shape[1]),
        kv_heads(k.shape[1]),
        width(q.shape[2]),
        value_width(kernels::value_width(options, width)),
        sequence(options.sequence),
        length(keys.shape[1]),
        list(keys.as<std::int32_t>()) {}
  [[nodiscard]] std::int64_t query(std::int64_t t, std::int64_t head) const { return (t * heads + head) * width; }
  [[nodiscard]] std::int64_t result(std::int64_t t, std::int64_t head) const { return (t * heads + head) * value_width; }
  [[nodiscard]] std::int64_t key(std::int64_t u, std::int64_t head) const { return (u * kv_heads + head / (heads / kv_heads)) * width; }
  [[nodiscard]] std::int64_t value(std::int64_t u, std::int64_t head) const {
    return (u * kv_heads + head / (heads / kv_heads)) * value_width;
  }
  [[nodiscard]] std::int64_t row_begin(std::int64_t t) const { return t / sequence * sequence; }
  [[nodiscard]] std::int64_t count(std::int64_t t) const {
    std::int64_t count = 0;
    while (count < length && list[t * length + count] >= 0) ++count;
    return count;
  }
  std::int64_t tokens, heads, kv_heads, width, value_width, sequence, length;
  const std::int32_t* list;
};

double capped(double score, SparseAttentionOptions options) {
  return options.soft_cap > 0 ? options.soft_cap * std::tanh(score / options.soft_cap) : score;
}
/// Derivative of the capped score with respect to the score, from the capped score.
double cap_gradient(double score, SparseAttentionOptions options) {
  return options.soft_cap > 0 ? 1 - score / options.soft_cap * (score / options.soft_cap) : 1;
}

void sparse_attention_forward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& keys, SparseAttentionOptions options,
                              const Tensor& o, const Tensor& log_sum_exp, Scratch scratch) {
  const Layout at(q, k, keys, options);
  auto* scores = reinterpret_cast<double*>(scratch.data());
  for (std::int64_t t = 0; t < at.tokens; ++t)
    for (std::int64_t h = 0; h < at.heads; ++h) {
      const std::int64_t begin = at.row_begin(t), count = at.count(t);
      const auto* list = at.list + t * at.length;
      double maximum = -std::numeric_limits<double>::infinity(), sum = 0;
      for (std::int64_t i = 0; i < count; ++i) {
        scores[i] = capped(dot(q, at.query(t, h), k, at.key(begin + list[i], h), at.width) * options.scale, options);
        maximum = std::max(maximum, scores[i]);
      }
      for (std::int64_t i = 0; i < count; ++i) sum += scores[i] = std::exp(scores[i] - maximum);
      for (std::int64_t d = 0; d < at.value_width; ++d) {
        double value = 0;
        for (std::int64_t i = 0; i < count; ++i) value += scores[i] * load(v, at.value(begin + list[i], h) + d);
        store(o, at.result(t, h) + d, count == 0 ? 0.0F : static_cast<float>(value / sum));
      }
      log_sum_exp.as<float>()[t * at.heads + h] = static_cast<float>(count == 0 ? maximum : maximum + std::log(sum));
    }
}

struct Operands {
  const Tensor &d_o, &q, &k, &v, &o, &log_sum_exp;
};

/// Adds one query's contribution to the sums of its row's keys (dk_sum [S, D], dv_sum [S, Dv]), and computes the query's own gradient.
void query_gradient(const Operands& x, const Layout& at, SparseAttentionOptions options, std::int64_t t, std::int64_t h, double* dq_sum,
                    double* dk_sum, double* dv_sum) {
  const std::int64_t begin = at.row_begin(t);
  const double delta = dot(x.d_o, at.result(t, h), x.o, at.result(t, h), at.value_width);
  std::fill(dq_sum, dq_sum + at.width, 0.0);
  for (std::int64_t i = 0; i < at.count(t); ++i) {
    const std::int64_t place = at.list[t * at.length + i], u = begin + place;
    const double score = capped(dot(x.q, at.query(t, h), x.k, at.key(u, h), at.width) * options.scale, options);
    const double p = std::exp(score - x.log_sum_exp.as<float>()[t * at.heads + h]);
    const double dp = dot(x.d_o, at.result(t, h), x.v, at.value(u, h), at.value_width);
    const double ds = p * (dp - delta) * cap_gradient(score, options) * options.scale;
    for (std::int64_t d = 0; d < at.value_width; ++d) dv_sum[place * at.value_width + d] += p * load(x.d_o, at.result(t, h) + d);
    for (std::int64_t d = 0; d < at.width; ++d) {
      dk_sum[place * at.width + d] += ds * load(x.q, at.query(t, h) + d);
      dq_sum[d] += ds * load(x.k, at.key(u, h) + d);
    }
  }
}

void sparse_attention_input_gradient(const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& o,
                                     const Tensor& log_sum_exp, const Tensor& keys, SparseAttentionOptions options, const Tensor& dq,
                                     const Tensor& dk, const Tensor& dv, Scratch scratch) {
  const Layout at(q, k, keys, options);
  // Sums over one row and key/value head, in double.
  const std::int64_t size = at.sequence * at.width, value_size = at.sequence * at.value_width;
  auto* dk_sum = reinterpret_cast<double*>(scratch.data());
  auto* dv_sum = dk_sum + size;
  auto* dq_sum = dv_sum + value_size;
  const std::int64_t group = at.heads / at.kv_heads;
  for (std::int64_t begin = 0; begin < at.tokens; begin += at.sequence)
    for (std::int64_t kv_head = 0; kv_head < at.kv_heads; ++kv_head) {
      std::fill(dk_sum, dq_sum, 0.0);
      for (std::int64_t t = begin; t < begin + at.sequence; ++t)
        for (std::int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
          query_gradient({d_o, q, k, v, o, log_sum_exp}, at, options, t, h, dq_sum, dk_sum, dv_sum);
          for (std::int64_t d = 0; d < at.width; ++d) store(dq, at.query(t, h) + d, static_cast<float>(dq_sum[d]));
        }
      for (std::int64_t i = 0; i < size; ++i)
        store(dk, at.key(begin + i / at.width, kv_head * group) + i % at.width, static_cast<float>(dk_sum[i]));
      for (std::int64_t i = 0; i < value_size; ++i)
        store(dv, at.value(begin + i / at.value_width, kv_head * group) + i % at.value_width, static_cast<float>(dv_sum[i]));
    }
}

std::size_t sparse_attention_scratch_bytes(const Shape& /*q*/, const Shape& k, std::int64_t list_length, DType /*dtype*/,
                                           SparseAttentionOptions options, const Processor& /*processor*/) {
  const std::int64_t both = k[2] + value_width(options, k[2]);
  return sizeof(double) * static_cast<std::size_t>(std::max(options.sequence * both + k[2], list_length));
}

const InTable sparse_attention_in_table[] = {
    {Backend::reference, table::sparse_attention_forward, without_context<sparse_attention_forward>},
    {Backend::reference, table::sparse_attention_input_gradient, without_context<sparse_attention_input_gradient>},
    {Backend::reference, table::sparse_attention_scratch_bytes, sparse_attention_scratch_bytes},
};

}  // namespace
}  // namespace millrace::kernels::reference
