#include "kernels/balance_loss.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

/// The softmax over a token's logits.
struct TokenSoftmax {
  TokenSoftmax(const Tensor& logits, std::int64_t t) : logits_(&logits), first_(t * logits.shape[1]), maximum_(load(logits, first_)) {
    for (std::int64_t e = 1; e < logits.shape[1]; ++e) maximum_ = std::max<double>(maximum_, load(logits, first_ + e));
    for (std::int64_t e = 0; e < logits.shape[1]; ++e) sum_ += std::exp(load(logits, first_ + e) - maximum_);
  }
  [[nodiscard]] double share(std::int64_t e) const { return std::exp(load(*logits_, first_ + e) - maximum_) / sum_; }

 private:
  const Tensor* logits_;
  std::int64_t first_;
  double maximum_, sum_ = 0;
};

/// Σ_e choices[b, e] · q[t, e].
double mean_choices(const TokenSoftmax& q, const std::int32_t* choices, std::int64_t experts) {
  double sum = 0;
  for (std::int64_t e = 0; e < experts; ++e) sum += choices[e] * q.share(e);
  return sum;
}

void balance_loss(const Tensor& logits, const Tensor& experts, BalanceLossOptions options, const Tensor& loss, const Tensor& choices) {
  const std::int64_t tokens = logits.shape[0], count = logits.shape[1], chosen = experts.shape[1], sequence = tokens / options.sequences;
  auto* choice = choices.as<std::int32_t>();
  for (std::int64_t i = 0; i < choices.elements(); ++i) choice[i] = 0;
  for (std::int64_t i = 0; i < experts.elements(); ++i) ++choice[i / chosen / sequence * count + experts.as<std::int32_t>()[i]];
  double sum = 0;
  for (std::int64_t t = 0; t < tokens; ++t) sum += mean_choices(TokenSoftmax(logits, t), choice + t / sequence * count, count);
  const auto length = static_cast<double>(sequence);
  loss.as<double>()[0] = tokens == 0 ? 0.0 : static_cast<double>(count) * sum / (length * length);
}

void balance_loss_input_gradient(const Tensor& logits, const Tensor& choices, const Tensor& scale, BalanceLossOptions options,
                                 const Tensor& d_logits) {
  const std::int64_t tokens = logits.shape[0], count = logits.shape[1], sequence = tokens / options.sequences;
  for (std::int64_t t = 0; t < tokens; ++t) {
    const TokenSoftmax q(logits, t);
    const auto* choice = choices.as<std::int32_t>() + t / sequence * count;
    const double mean = mean_choices(q, choice, count), length = static_cast<double>(sequence);
    const double factor = scale.as<float>()[0] * static_cast<double>(count) / (length * length);
    for (std::int64_t e = 0; e < count; ++e) store(d_logits, t * count + e, static_cast<float>(q.share(e) * factor * (choice[e] - mean)));
  }
}

const InTable balance_loss_in_table[] = {
    {Backend::reference, table::balance_loss, without_context<balance_loss>},
    {Backend::reference, table::balance_loss_input_gradient, without_context<balance_loss_input_gradient>},
};

}  // namespace
}  // namespace millrace::kernels::reference
