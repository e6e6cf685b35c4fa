#include "kernels/learned_scale.hpp"

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

std::int64_t number_of(const Tensor* which, std::int64_t i) { return which == nullptr ? 0 : which->as<std::int32_t>()[i]; }

void learned_scale(const Tensor& x, const Tensor& scales, const Tensor* which, const Tensor& y) {
  for (std::int64_t i = 0; i < x.elements(); ++i) store(y, i, load(x, i) * scales.as<float>()[number_of(which, i)]);
}

void learned_scale_weight_gradient(const Tensor& dy, const Tensor& x, const Tensor* which, const Tensor& d_scales) {
  for (std::int64_t n = 0; n < d_scales.elements(); ++n) {
    double sum = 0;
    for (std::int64_t i = 0; i < x.elements(); ++i)
      if (number_of(which, i) == n) sum += static_cast<double>(load(dy, i)) * static_cast<double>(load(x, i));
    d_scales.as<float>()[n] += static_cast<float>(sum);
  }
}

const InTable in_table[] = {
    {Backend::reference, table::learned_scale, without_context<learned_scale>},
    {Backend::reference, table::learned_scale_weight_gradient, without_context<learned_scale_weight_gradient>},
};

}  // namespace
}  // namespace millrace::kernels::reference
