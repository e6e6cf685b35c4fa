#include "kernels/router_z_loss.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

double log_sum_exp(const Tensor& logits, std::int64_t t) {
  const std::int64_t first = t * logits.shape[1], last = first + logits.shape[1];
  double maximum = load(logits, first), sum = 0;
  for (std::int64_t i = first; i < last; ++i) maximum = std::max<double>(maximum, load(logits, i));
  for (std::int64_t i = first; i < last; ++i) sum += std::exp(load(logits, i) - maximum);
  return maximum + std::log(sum);
}

void router_z_loss(const Tensor& logits, const Tensor& loss) {
  double sum = 0;
  for (std::int64_t t = 0; t < logits.shape[0]; ++t) {
    const double z = log_sum_exp(logits, t);
    sum += z * z;
  }
  loss.as<double>()[0] = sum;
}

void router_z_loss_input_gradient(const Tensor& logits, const Tensor& scale, const Tensor& d_logits) {
  const std::int64_t experts = logits.shape[1];
  for (std::int64_t t = 0; t < logits.shape[0]; ++t) {
    const double z = log_sum_exp(logits, t), factor = 2 * static_cast<double>(scale.as<float>()[0]) * z;
    for (std::int64_t i = t * experts; i < (t + 1) * experts; ++i)
      store(d_logits, i, static_cast<float>(factor * std::exp(load(logits, i) - z)));
  }
}

const InTable router_z_loss_in_table[] = {
    {Backend::reference, table::router_z_loss, without_context<router_z_loss>},
    {Backend::reference, table::router_z_loss_input_gradient, without_context<router_z_loss_input_gradient>},
};

}  // namespace
}  // namespace millrace::kernels::reference
