#include "kernels/l2_norm.hpp"

#include <cmath>

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

void l2_norm_forward(const Tensor& x, L2NormOptions options, const Tensor& y, const Tensor& r) {
  const std::int64_t width = x.shape[1];
  for (std::int64_t t = 0; t < x.shape[0]; ++t) {
    double sum = 0;
    for (std::int64_t d = 0; d < width; ++d) sum += double{load(x, t * width + d)} * load(x, t * width + d);
    const float inverse = 1.0F / std::sqrt(static_cast<float>(sum) + rounded(x.dtype, options.epsilon));
    r.as<float>()[t] = inverse;
    for (std::int64_t d = 0; d < width; ++d) store(y, t * width + d, load(x, t * width + d) * inverse);
  }
}

void l2_norm_input_gradient(const Tensor& dy, const Tensor& x, const Tensor& r, const Tensor& dx) {
  const std::int64_t width = x.shape[1];
  for (std::int64_t t = 0; t < x.shape[0]; ++t) {
    double sum = 0;
    for (std::int64_t d = 0; d < width; ++d) sum += double{load(dy, t * width + d)} * load(x, t * width + d);
    const float inverse = r.as<float>()[t], along = static_cast<float>(sum) * inverse * inverse;
    for (std::int64_t d = 0; d < width; ++d) store(dx, t * width + d, inverse * (load(dy, t * width + d) - load(x, t * width + d) * along));
  }
}

const InTable l2_norm_in_table[] = {
    {Backend::reference, table::l2_norm_forward, without_context<l2_norm_forward>},
    {Backend::reference, table::l2_norm_input_gradient, without_context<l2_norm_input_gradient>},
};

}  // namespace
}  // namespace millrace::kernels::reference
