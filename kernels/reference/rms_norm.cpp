#include "kernels/rms_norm.hpp"

#include <cmath>

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

/// The weights of row t: w is [D], or [k, D] for k rows that follow each other.
const float* weights_of(const Tensor& w, std::int64_t t) {
  const std::int64_t sets = w.shape.rank() == 2 ? w.shape[0] : 1;
  return w.as<float>() + t % sets * w.shape[w.shape.rank() - 1];
}

void rms_norm_forward(const Tensor& x, const Tensor& w, RmsNormOptions options, const Tensor& y, const Tensor& r) {
  const std::int64_t rows = x.shape[0];
  const std::int64_t width = x.shape[1];
  for (std::int64_t t = 0; t < rows; ++t) {
    double sum = 0;
    for (std::int64_t d = 0; d < width; ++d) sum += double{load(x, t * width + d)} * load(x, t * width + d);
    const float* weights = weights_of(w, t);
    const float inverse = 1.0F / std::sqrt(static_cast<float>(sum / static_cast<double>(width)) + options.epsilon);
    r.as<float>()[t] = inverse;
    for (std::int64_t d = 0; d < width; ++d) {
      const float normal = load(x, t * width + d) * inverse;
      store(y, t * width + d, (options.round_first ? rounded(x.dtype, normal) : normal) * (weights[d] + options.offset));
    }
  }
}

void rms_norm_input_gradient(const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& r, RmsNormOptions options, const Tensor& dx,
                             const Tensor* addend) {
  const std::int64_t rows = x.shape[0];
  const std::int64_t width = x.shape[1];
  for (std::int64_t t = 0; t < rows; ++t) {
    const float* weights = weights_of(w, t);
    double sum = 0;
    for (std::int64_t d = 0; d < width; ++d)
      sum += double{load(dy, t * width + d) * (weights[d] + options.offset)} * load(x, t * width + d);
    const float inverse = r.as<float>()[t];
    const float along = static_cast<float>(sum / static_cast<double>(width)) * inverse * inverse;
    for (std::int64_t d = 0; d < width; ++d) {
      const float g = load(dy, t * width + d) * (weights[d] + options.offset);
      const float added = addend != nullptr ? load(*addend, t * width + d) : 0.0F;
      store(dx, t * width + d, inverse * (g - load(x, t * width + d) * along) + added);
    }
  }
}

void rms_norm_weight_gradient(const Tensor& dy, const Tensor& x, const Tensor& r, const Tensor& dw) {
  const std::int64_t rows = x.shape[0];
  const std::int64_t width = x.shape[1];
  const std::int64_t sets = dw.elements() / width;
  for (std::int64_t i = 0; i < dw.elements(); ++i) {
    const std::int64_t d = i % width;
    double sum = 0;
    for (std::int64_t t = i / width; t < rows; t += sets)
      sum += double{load(dy, t * width + d)} * load(x, t * width + d) * r.as<float>()[t];
    dw.as<float>()[i] += static_cast<float>(sum);
  }
}

const InTable rms_norm_in_table[] = {
    {Backend::reference, table::rms_norm_forward, without_context<rms_norm_forward>},
    {Backend::reference, table::rms_norm_input_gradient, without_context<rms_norm_input_gradient>},
    {Backend::reference, table::rms_norm_weight_gradient, without_context<rms_norm_weight_gradient>},
};

}  // namespace
}  // namespace millrace::kernels::reference
