#include "kernels/activation.hpp"

#include <algorithm>
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
  constexpr double mean = 0.707107, deviation = 0.282095;  // rounded to six digits, as in torch
  const Point share = normal_share((x - mean) / deviation);
  return {share.value, share.slope / deviation};
}

double softplus(double x) { return std::log1p(std::exp(x)); }

Point sqrtsoftplus(double x) {
  if (x > 20) return {std::sqrt(x), 0.5 / std::sqrt(x)};
  const double root = std::sqrt(softplus(x));
  return {root, 1 / (1 + std::exp(-x)) / (2 * root)};
}

double to_bf16(double value) { return to_float(to_bfloat16(static_cast<float>(value))); }

/// An activation of the form f(x) + Σ cᵢ·fᵢ(x), where cᵢ depends on the learned number aᵢ alone: the cᵢ, with dcᵢ/daᵢ as slopes.
struct Coefficients {
  Coefficients(Activation activation, ActivationParameters parameters) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const double a = parameters[i].as<float>()[0], rounded = to_bf16(a);
      if (activation == Activation::prelu) of[i] = {a, 1};
      if (activation != Activation::xielu) continue;
      const double learned = to_bf16(softplus(rounded));
      of[i] = {i == 0 ? learned : to_bf16(xielu_beta + learned), 1 / (1 + std::exp(-rounded))};
    }
  }
  Point of[max_activation_parameters] = {};
};

/// The fᵢ(x).
double term(Activation activation, std::size_t i, double x) {
  if (activation == Activation::prelu) return x > 0 ? 0 : x;
  if (i == 0) return x > 0 ? x * x : 0;
  return x > 0 ? 0 : std::expm1(std::min<double>(x, xielu_epsilon)) - x;
}

Point xielu(double x, const Coefficients& c) {
  const double value = c.of[0].value * term(Activation::xielu, 0, x) + c.of[1].value * term(Activation::xielu, 1, x) + xielu_beta * x;
  if (x > 0) return {value, 2 * c.of[0].value * x + xielu_beta};
  return {value, c.of[1].value * (x < xielu_epsilon ? std::expm1(x) : -1) + xielu_beta};
}

Point at(Activation activation, double x, const Coefficients& c) {
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
      return laplace(x);
    case Activation::sqrtsoftplus:
      return sqrtsoftplus(x);
    case Activation::prelu:
      return x > 0 ? Point{x, 1} : Point{c.of[0].value * x, c.of[0].value};
    case Activation::xielu:
      break;
  }
  return xielu(x, c);
}

void activation_forward(Activation activation, const Tensor& x, const Tensor& y, ActivationParameters parameters) {
  const Coefficients c(activation, parameters);
  for (std::int64_t i = 0; i < y.elements(); ++i) store(y, i, static_cast<float>(at(activation, load(x, i), c).value));
}

void activation_input_gradient(Activation activation, const Tensor& dy, const Tensor& x, const Tensor& dx,
                               ActivationParameters parameters) {
  const Coefficients c(activation, parameters);
  for (std::int64_t i = 0; i < dx.elements(); ++i) store(dx, i, static_cast<float>(load(dy, i) * at(activation, load(x, i), c).slope));
}

void glu_forward(Activation activation, const Tensor& gate, const Tensor& up, const Tensor& y, ActivationParameters parameters) {
  const Coefficients c(activation, parameters);
  for (std::int64_t i = 0; i < y.elements(); ++i) store(y, i, static_cast<float>(at(activation, load(gate, i), c).value * load(up, i)));
}

void glu_input_gradient(Activation activation, const Tensor& dy, const Tensor& gate, const Tensor& up, const Tensor& d_gate,
                        const Tensor& d_up, ActivationParameters parameters) {
  const Coefficients c(activation, parameters);
  for (std::int64_t i = 0; i < dy.elements(); ++i) {
    const Point point = at(activation, load(gate, i), c);
    store(d_gate, i, static_cast<float>(load(dy, i) * double{load(up, i)} * point.slope));
    store(d_up, i, static_cast<float>(load(dy, i) * point.value));
  }
}

void activation_parameter_gradient(Activation activation, const Tensor& dy, const Tensor& x, const Tensor* up,
                                   ActivationParameters parameters, std::span<const Tensor> d_parameters) {
  const Coefficients c(activation, parameters);
  for (std::size_t which = 0; which < parameters.size(); ++which) {
    double sum = 0;
    for (std::int64_t i = 0; i < x.elements(); ++i)
      sum += load(dy, i) * (up == nullptr ? 1.0 : double{load(*up, i)}) * term(activation, which, load(x, i));
    d_parameters[which].as<float>()[0] += static_cast<float>(sum * c.of[which].slope);
  }
}

const InTable activation_in_table[] = {
    {Backend::reference, table::activation_forward, without_context<activation_forward>},
    {Backend::reference, table::activation_input_gradient, without_context<activation_input_gradient>},
    {Backend::reference, table::glu_forward, without_context<glu_forward>},
    {Backend::reference, table::glu_input_gradient, without_context<glu_input_gradient>},
    {Backend::reference, table::activation_parameter_gradient, without_context<activation_parameter_gradient>},
};

}  // namespace
}  // namespace millrace::kernels::reference
