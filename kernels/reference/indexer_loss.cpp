#include "kernels/indexer_loss.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

double dot(const Tensor& a, std::int64_t a_vector, const Tensor& b, std::int64_t b_vector, std::int64_t width) {
  double sum = 0;
  for (std::int64_t d = 0; d < width; ++d) sum += double{load(a, a_vector * width + d)} * load(b, b_vector * width + d);
  return sum;
}

/// In place, over `count` numbers.
void softmax(double* x, std::int64_t count) {
  double maximum = -std::numeric_limits<double>::infinity(), sum = 0;
  for (std::int64_t i = 0; i < count; ++i) maximum = std::max(maximum, x[i]);
  for (std::int64_t i = 0; i < count; ++i) sum += x[i] = std::exp(x[i] - maximum);
  for (std::int64_t i = 0; i < count; ++i) x[i] /= sum;
}

/// One token at a time: its keys, and what is computed from them. Arrays of S numbers in scratch.
class Token {
 public:
  Token(const IndexerLossOperands& in, IndexerLossOptions options, Scratch scratch)
      : target(reinterpret_cast<double*>(scratch.data())),
        found(target + options.sequence),
        in_(in),
        options_(options),
        work_(found + options.sequence),
        key_(work_ + options.sequence) {}

  /// Computes P and Q of token t, and returns its term of the loss.
  double read(std::int64_t t) {
    list_keys(t);
    std::fill(target, target + count, 0.0);
    const std::int64_t heads = in_.q.shape[1], kv_heads = in_.k.shape[1];
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t i = 0; i < count; ++i)
        work_[i] = options_.scale * dot(in_.q, t * heads + h, in_.k, token(i) * kv_heads + h / (heads / kv_heads), in_.q.shape[2]);
      softmax(work_, count);
      for (std::int64_t i = 0; i < count; ++i) target[i] += work_[i];
    }
    double sum = 0;
    for (std::int64_t i = 0; i < count; ++i) sum += target[i];
    for (std::int64_t i = 0; i < count; ++i) target[i] /= sum + epsilon;
    for (std::int64_t i = 0; i < count; ++i) {
      found[i] = 0;
      for (std::int64_t h = 0; h < index_heads(); ++h) found[i] += weight(t, h) * std::max(product(t, h, i), 0.0);
    }
    softmax(found, count);
    double term = 0;
    for (std::int64_t i = 0; i < count; ++i) term += target[i] * (std::log(target[i] + epsilon) - std::log(found[i] + epsilon));
    return term;
  }
  /// Turns P into dI.
  void differentiate(double scale) {
    double sum = 0;
    for (std::int64_t i = 0; i < count; ++i) sum += target[i] *= found[i] / (found[i] + epsilon);
    for (std::int64_t i = 0; i < count; ++i) target[i] = scale * (found[i] * sum - target[i]);
  }
  [[nodiscard]] std::int64_t index_heads() const { return in_.index_q.shape[1]; }
  /// index_scale · weight of a head.
  [[nodiscard]] double weight(std::int64_t t, std::int64_t h) const {
    return double{options_.index_scale} * in_.index_weights.as<float>()[t * index_heads() + h];
  }
  [[nodiscard]] double product(std::int64_t t, std::int64_t h, std::int64_t i) const {
    return dot(in_.index_q, t * index_heads() + h, in_.index_k, token(i), in_.index_q.shape[2]);
  }
  /// The token that is key i of the list.
  [[nodiscard]] std::int64_t token(std::int64_t i) const { return static_cast<std::int64_t>(key_[i]); }

  double* target;  // P, or dI
  double* found;   // Q
  std::int64_t count = 0;

 private:
  static constexpr double epsilon = indexer_loss_epsilon;

  void list_keys(std::int64_t t) {
    const std::int64_t begin = t / options_.sequence * options_.sequence, length = options_.list_length;
    const auto* segment = in_.segments.as<std::int32_t>();
    count = 0;
    if (in_.keys != nullptr) {
      const auto* list = in_.keys->as<std::int32_t>() + t * length;
      for (; count < length && list[count] >= 0; ++count) key_[count] = static_cast<double>(begin + list[count]);
    } else {
      for (std::int64_t u = begin; u <= t; ++u)
        if (segment[u] == segment[t]) key_[count++] = static_cast<double>(u);
    }
  }
  const IndexerLossOperands& in_;
  IndexerLossOptions options_;
  double* work_;
  double* key_;  // tokens, as doubles
};

void indexer_loss(const IndexerLossOperands& in, IndexerLossOptions options, const Tensor& loss, Scratch scratch) {
  Token token(in, options, scratch);
  double sum = 0;
  for (std::int64_t t = 0; t < in.q.shape[0]; ++t) sum += token.read(t);
  loss.as<double>()[0] = sum;
}

void indexer_loss_input_gradient(const IndexerLossOperands& in, const Tensor& scale, IndexerLossOptions options, const Tensor& d_index_q,
                                 const Tensor& d_index_k, const Tensor& d_index_weights, const Tensor& loss, Scratch scratch) {
  const std::int64_t tokens = in.q.shape[0], heads = in.index_q.shape[1], width = in.index_q.shape[2];
  auto* dk = reinterpret_cast<double*>(scratch.data());  // of all tokens
  auto* dq = dk + tokens * width;                        // of one head
  std::fill(dk, dq, 0.0);
  Token token(in, options, scratch.subspan(static_cast<std::size_t>((tokens + 1) * width) * sizeof(double)));
  double sum = 0;
  for (std::int64_t t = 0; t < tokens; ++t) {
    sum += token.read(t);
    token.differentiate(scale.as<float>()[0]);
    for (std::int64_t h = 0; h < heads; ++h) {
      double dw = 0;
      std::fill(dq, dq + width, 0.0);
      for (std::int64_t i = 0; i < token.count; ++i) {
        const double product = token.product(t, h, i);
        if (!(product > 0)) continue;
        dw += token.target[i] * product * options.index_scale;
        const double slope = token.target[i] * token.weight(t, h);
        for (std::int64_t d = 0; d < width; ++d) {
          dq[d] += slope * load(in.index_k, token.token(i) * width + d);
          dk[token.token(i) * width + d] += slope * load(in.index_q, (t * heads + h) * width + d);
        }
      }
      d_index_weights.as<float>()[t * heads + h] = static_cast<float>(dw);
      for (std::int64_t d = 0; d < width; ++d) store(d_index_q, (t * heads + h) * width + d, static_cast<float>(dq[d]));
    }
  }
  for (std::int64_t i = 0; i < tokens * width; ++i) store(d_index_k, i, static_cast<float>(dk[i]));
  loss.as<double>()[0] = sum;
}

std::size_t indexer_loss_scratch_bytes(const Shape& q, const Shape& index_q, DType /*dtype*/, IndexerLossOptions options,
                                       const Processor& /*processor*/) {
  return sizeof(double) * static_cast<std::size_t>((q[0] + 1) * index_q[2] + 4 * options.sequence);
}

const InTable indexer_loss_in_table[] = {
    {Backend::reference, table::indexer_loss, without_context<indexer_loss>},
    {Backend::reference, table::indexer_loss_input_gradient, without_context<indexer_loss_input_gradient>},
    {Backend::reference, table::indexer_loss_scratch_bytes, indexer_loss_scratch_bytes},
};

}  // namespace
}  // namespace millrace::kernels::reference
