#include "kernels/short_convolution.hpp"

#include <cmath>

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

struct Convolution {
  const Tensor &x, &w, &segments;
  ShortConvolutionOptions options;
  std::int64_t channels = x.shape[1], taps = w.shape[w.shape.rank() - 1];

  /// The places from tap j to the last one.
  [[nodiscard]] std::int64_t back(std::int64_t j) const { return (taps - 1 - j) * options.dilation; }
  /// Whether token t sees the token `distance` places before it.
  [[nodiscard]] bool sees(std::int64_t t, std::int64_t distance) const {
    if (t % options.sequence < distance) return false;
    const auto* segment = segments.as<std::int32_t>();
    for (std::int64_t i = t - distance; i < t; ++i)
      if (!options.one_segment && options.reset_at_segments && segment[i] != segment[i + 1]) return false;
    return true;
  }
  [[nodiscard]] double weight(std::int64_t n, std::int64_t j) const { return load(w, n * taps + j); }
  [[nodiscard]] double sum(std::int64_t t, std::int64_t n) const {
    double sum = 0;
    for (std::int64_t j = 0; j < taps; ++j)
      if (sees(t, back(j))) sum += weight(n, j) * load(x, (t - back(j)) * channels + n);
    return rounded(x.dtype, static_cast<float>(sum));
  }
  /// The gradient of the sum.
  [[nodiscard]] double upstream(const Tensor& dy, std::int64_t t, std::int64_t n) const {
    const double gradient = load(dy, t * channels + n);
    if (!options.silu) return gradient;
    const double c = sum(t, n), s = 1 / (1 + std::exp(-c));
    return gradient * s * (1 + c * (1 - s));
  }
};

void short_convolution_forward(const Tensor& x, const Tensor& w, const Tensor& segments, ShortConvolutionOptions options, const Tensor& y) {
  const Convolution at{x, w, segments, options};
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    const double c = at.sum(i / at.channels, i % at.channels);
    store(y, i, static_cast<float>(options.silu ? c / (1 + std::exp(-c)) : c));
  }
}

void short_convolution_input_gradient(const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& segments,
                                      ShortConvolutionOptions options, const Tensor& dx) {
  const Convolution at{x, w, segments, options};
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    const std::int64_t t = i / at.channels, n = i % at.channels;
    double sum = 0;
    for (std::int64_t j = at.taps - 1; j >= 0; --j) {
      const std::int64_t later = t + at.back(j);
      if (later < x.shape[0] && at.sees(later, at.back(j))) sum += at.weight(n, j) * at.upstream(dy, later, n);
    }
    store(dx, i, static_cast<float>(sum));
  }
}

void short_convolution_weight_gradient(const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& segments,
                                       ShortConvolutionOptions options, const Tensor& dw) {
  const Convolution at{x, w, segments, options};
  for (std::int64_t n = 0; n < at.channels; ++n)
    for (std::int64_t j = 0; j < at.taps; ++j) {
      double sum = 0;
      for (std::int64_t t = 0; t < x.shape[0]; ++t)
        if (at.sees(t, at.back(j))) sum += at.upstream(dy, t, n) * load(x, (t - at.back(j)) * at.channels + n);
      dw.as<float>()[n * at.taps + j] += static_cast<float>(sum);
    }
}

const InTable short_convolution_in_table[] = {
    {Backend::reference, table::short_convolution_forward, without_context<short_convolution_forward>},
    {Backend::reference, table::short_convolution_input_gradient, without_context<short_convolution_input_gradient>},
    {Backend::reference, table::short_convolution_weight_gradient, without_context<short_convolution_weight_gradient>},
};

}  // namespace
}  // namespace millrace::kernels::reference
