#include "kernels/reference/swiglu.hpp"

#include <cmath>

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

float sigmoid(float x) { return 1.0F / (1.0F + std::exp(-x)); }

}  // namespace

void swiglu_forward(const Tensor& gate, const Tensor& up, const Tensor& y) {
  for (std::int64_t i = 0; i < y.elements(); ++i) {
    const float g = load(gate, i);
    store(y, i, g * sigmoid(g) * load(up, i));
  }
}

void swiglu_input_gradient(const Tensor& dy, const Tensor& gate, const Tensor& up, const Tensor& d_gate, const Tensor& d_up) {
  for (std::int64_t i = 0; i < dy.elements(); ++i) {
    const float g = load(gate, i);
    const float u = load(up, i);
    const float d = load(dy, i);
    const float s = sigmoid(g);
    store(d_gate, i, d * u * s * (1.0F + g * (1.0F - s)));
    store(d_up, i, d * g * s);
  }
}

}  // namespace millrace::kernels::reference
