#include "kernels/bias.hpp"

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

void bias_forward(const Tensor& x, const Tensor& b, const Tensor& y) {
  for (std::int64_t i = 0; i < x.elements(); ++i) store(y, i, load(x, i) + b.as<float>()[i % x.shape[1]]);
}

void bias_weight_gradient(const Tensor& dy, const Tensor& db) {
  for (std::int64_t n = 0; n < dy.shape[1]; ++n) {
    double sum = 0;
    for (std::int64_t t = 0; t < dy.shape[0]; ++t) sum += load(dy, t * dy.shape[1] + n);
    db.as<float>()[n] += static_cast<float>(sum);
  }
}

const InTable bias_in_table[] = {
    {Backend::reference, table::bias_forward, without_context<bias_forward>},
    {Backend::reference, table::bias_weight_gradient, without_context<bias_weight_gradient>},
};

}  // namespace
}  // namespace millrace::kernels::reference
