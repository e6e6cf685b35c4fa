#include "kernels/layer_norm.hpp"

#include <cmath>

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

double normal(const Tensor& x, const Tensor& m, const Tensor& r, std::int64_t t, std::int64_t d) {
  return (double{load(x, t * x.shape[1] + d)} - m.as<float>()[t]) * r.as<float>()[t];
}

void layer_norm_forward(const Tensor& x, const Tensor& w, const Tensor& b, LayerNormOptions options, const Tensor& y, const Tensor& m,
                        const Tensor& r) {
  const std::int64_t width = x.shape[1];
  for (std::int64_t t = 0; t < x.shape[0]; ++t) {
    double sum = 0, squares = 0;
    for (std::int64_t d = 0; d < width; ++d) sum += load(x, t * width + d);
    const double mean = sum / static_cast<double>(width);
    for (std::int64_t d = 0; d < width; ++d) squares += (load(x, t * width + d) - mean) * (load(x, t * width + d) - mean);
    m.as<float>()[t] = static_cast<float>(mean);
    r.as<float>()[t] = static_cast<float>(1 / std::sqrt(squares / static_cast<double>(width) + options.epsilon));
    for (std::int64_t d = 0; d < width; ++d)
      store(y, t * width + d, static_cast<float>(normal(x, m, r, t, d) * (double{w.as<float>()[d]} + options.offset) + b.as<float>()[d]));
  }
}

void layer_norm_input_gradient(const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& m, const Tensor& r,
                               LayerNormOptions options, const Tensor& dx) {
  const std::int64_t width = x.shape[1];
  const auto scaled = [&](std::int64_t t, std::int64_t d) { return load(dy, t * width + d) * (double{w.as<float>()[d]} + options.offset); };
  for (std::int64_t t = 0; t < x.shape[0]; ++t) {
    double mean = 0, along = 0;
    for (std::int64_t d = 0; d < width; ++d) {
      mean += scaled(t, d) / static_cast<double>(width);
      along += scaled(t, d) * normal(x, m, r, t, d) / static_cast<double>(width);
    }
    for (std::int64_t d = 0; d < width; ++d)
      store(dx, t * width + d, static_cast<float>(r.as<float>()[t] * (scaled(t, d) - mean - normal(x, m, r, t, d) * along)));
  }
}

void layer_norm_weight_gradient(const Tensor& dy, const Tensor& x, const Tensor& m, const Tensor& r, const Tensor& dw, const Tensor& db) {
  const std::int64_t width = x.shape[1];
  for (std::int64_t d = 0; d < width; ++d) {
    double weight = 0, bias = 0;
    for (std::int64_t t = 0; t < x.shape[0]; ++t) {
      weight += load(dy, t * width + d) * normal(x, m, r, t, d);
      bias += load(dy, t * width + d);
    }
    dw.as<float>()[d] += static_cast<float>(weight);
    db.as<float>()[d] += static_cast<float>(bias);
  }
}

const InTable layer_norm_in_table[] = {
    {Backend::reference, table::layer_norm_forward, without_context<layer_norm_forward>},
    {Backend::reference, table::layer_norm_input_gradient, without_context<layer_norm_input_gradient>},
    {Backend::reference, table::layer_norm_weight_gradient, without_context<layer_norm_weight_gradient>},
};

}  // namespace
}  // namespace millrace::kernels::reference
