#include "kernels/context_gate.hpp"

#include <cmath>

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

double context_gate_of(double z) {
  const double root = std::sqrt(std::max(std::abs(z), static_cast<double>(context_gate_floor)));
  return 1 / (1 + std::exp(z > 0 ? -root : z < 0 ? root : 0.0));
}

void context_gate_forward(const Tensor& q, const Tensor& keys, const Tensor& v, const Tensor& z, const Tensor& y) {
  const std::int64_t width = v.shape[1], k = q.shape[1] / width;
  for (std::int64_t row = 0; row < z.elements(); ++row) {
    double sum = 0;
    for (std::int64_t d = 0; d < width; ++d) sum += double{load(q, row * width + d)} * load(keys, row * width + d);
    z.as<float>()[row] = static_cast<float>(sum / std::sqrt(static_cast<double>(width)));
    const double gate = context_gate_of(z.as<float>()[row]);
    for (std::int64_t d = 0; d < width; ++d) store(y, row * width + d, static_cast<float>(gate * load(v, row / k * width + d)));
  }
}

void context_gate_gradient(const Tensor& dy, const Tensor& q, const Tensor& keys, const Tensor& v, const Tensor& z, const Tensor& dq,
                           const Tensor& d_keys, const Tensor& dv) {
  const std::int64_t width = v.shape[1], k = q.shape[1] / width;
  for (std::int64_t row = 0; row < z.elements(); ++row) {
    const double score = z.as<float>()[row], gate = context_gate_of(score);
    double upstream = 0;
    for (std::int64_t d = 0; d < width; ++d) upstream += double{load(dy, row * width + d)} * load(v, row / k * width + d);
    double slope = 0;
    if (std::abs(score) > context_gate_floor) slope = upstream * gate * (1 - gate) / (2 * std::sqrt(std::abs(score)));
    slope /= std::sqrt(static_cast<double>(width));
    for (std::int64_t d = 0; d < width; ++d) {
      store(dq, row * width + d, static_cast<float>(slope * load(keys, row * width + d)));
      store(d_keys, row * width + d, static_cast<float>(slope * load(q, row * width + d)));
    }
  }
  for (std::int64_t i = 0; i < v.elements(); ++i) {
    double sum = 0;
    for (std::int64_t stream = 0; stream < k; ++stream) {
      const std::int64_t row = i / width * k + stream;
      sum += context_gate_of(z.as<float>()[row]) * load(dy, row * width + i % width);
    }
    store(dv, i, static_cast<float>(sum));
  }
}

const InTable context_gate_in_table[] = {
    {Backend::reference, table::context_gate_forward, without_context<context_gate_forward>},
    {Backend::reference, table::context_gate_gradient, without_context<context_gate_gradient>},
};

}  // namespace
}  // namespace millrace::kernels::reference
