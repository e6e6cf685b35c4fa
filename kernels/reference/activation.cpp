#include "kernels/activation.hpp"

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

/// Φ and its density.
Point normal_share(double x) {
  return {0.5 * std::erfc(-x * std::numbers::sqrt2 / 2), std::exp(-0.5 * x * x) * std::numbers::inv_sqrtpi / std::numbers::sqrt2};
}

Point gelu_erf(double x) {
  const Point share = normal_share(x);
  return {x * share.value, share.value + x * share.slope};
}

Point gelu_10(double x) {
  const Point inner = gelu_erf(x);
  return inner.value > 10 ? Point{10, 0} : inner;  // it is never below −0.17
}

Point quick_gelu(double x) {
  const double s = 1 / (1 + std::exp(-1.702 * x));
  return {x * s, s * (1 + 1.702 * x * (1 - s))};
}

Point sigmoid(double x) {
  const double s = 1 / (1 + std::exp(-x));
  return {s, s / (1 + std::exp(x))};
}

Point tanh(double x) {
  const double t = std::tanh(x);
  return {t, (1 - t) * (1 + t)};
}

Point mish(double x) {
  const double t = std::tanh(std::log1p(std::exp(x)));
  return {x * t, t + x * (1 - t) * (1 + t) / (1 + std::exp(-x))};
}

Point laplace(double x) {
  constexpr double mean = 0.707107, deviation = 0.282095;  // torch has six digits of them
  const Point share = normal_share((x - mean) / deviation);
  return {share.value, share.slope / deviation};
}

Point at(Activation activation, double x) {
  switch (activation) {
    case Activation::silu:
      return silu(x);
    case Activation::gelu:
      return gelu(x);
    case Activation::relu:
      return relu(x);
    case Activation::gelu_erf:
      return gelu_erf(x);
    case Activation::gelu_10:
      return gelu_10(x);
    case Activation::quick_gelu:
      return quick_gelu(x);
    case Activation::relu2:
      return x > 0 ? Point{x * x, 2 * x} : Point{0, 0};
    case Activation::relu6:
      return x >= 6 ? Point{6, 0} : relu(x);
    case Activation::leaky_relu:
      return x > 0 ? Point{x, 1} : Point{0.01 * x, 0.01};
    case Activation::sigmoid:
      return sigmoid(x);
    case Activation::tanh:
      return tanh(x);
    case Activation::linear:
      return {x, 1};
    case Activation::hardswish:
      return x <= -3 ? Point{0, 0} : x < 3 ? Point{x * (x + 3) / 6, x / 3 + 0.5} : Point{x, 1};
    case Activation::mish:
      return mish(x);
    case Activation::laplace:
      break;
  }
  return laplace(x);
}

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

const InTable in_table[] = {
    {Backend::reference, table::activation_forward, without_context<activation_forward>},
    {Backend::reference, table::activation_input_gradient, without_context<activation_input_gradient>},
    {Backend::reference, table::glu_forward, without_context<glu_forward>},
    {Backend::reference, table::glu_input_gradient, without_context<glu_input_gradient>},
};

}  // namespace
}  // namespace millrace::kernels::reference
