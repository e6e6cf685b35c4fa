#include "kernels/reference/activation.hpp"

#include <cmath>
#include <numbers>

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

struct Point {
  double value, slope;
};

Point silu(double x) {
  const double s = 1 / (1 + std::exp(-x));
  return {x * s, s * (1 + x * (1 - s))};
}

Point gelu(double x) {
  const double steep = std::sqrt(2 / std::numbers::pi), cubic = 0.044715;
  const double t = std::tanh(steep * (x + cubic * x * x * x));
  return {0.5 * x * (1 + t), 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * steep * (1 + 3 * cubic * x * x)};
}

Point relu(double x) { return x > 0 ? Point{x, 1} : Point{0, 0}; }

Point at(Activation activation, double x) {
  switch (activation) {
    case Activation::silu:
      return silu(x);
    case Activation::gelu:
      return gelu(x);
    case Activation::relu:
      break;
  }
  return relu(x);
}

}  // namespace

void activation_forward(Activation activation, const Tensor& x, const Tensor& y) {
  for (std::int64_t i = 0; i < y.elements(); ++i) store(y, i, static_cast<float>(at(activation, load(x, i)).value));
}

void activation_input_gradient(Activation activation, const Tensor& dy, const Tensor& x, const Tensor& dx) {
  for (std::int64_t i = 0; i < dx.elements(); ++i) store(dx, i, static_cast<float>(load(dy, i) * at(activation, load(x, i)).slope));
}

void glu_forward(Activation activation, const Tensor& gate, const Tensor& up, const Tensor& y) {
  for (std::int64_t i = 0; i < y.elements(); ++i) store(y, i, static_cast<float>(at(activation, load(gate, i)).value * load(up, i)));
}

void glu_input_gradient(Activation activation, const Tensor& dy, const Tensor& gate, const Tensor& up, const Tensor& d_gate,
                        const Tensor& d_up) {
  for (std::int64_t i = 0; i < dy.elements(); ++i) {
    const Point point = at(activation, load(gate, i));
    store(d_gate, i, static_cast<float>(load(dy, i) * double{load(up, i)} * point.slope));
    store(d_up, i, static_cast<float>(load(dy, i) * point.value));
  }
}

}  // namespace millrace::kernels::reference
