#include "kernels/activation.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/cpu/activation_loops.hpp"

namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kGrain = 1024;  // elements; waking a thread costs more than fewer are worth

// Calls `each(begin, end)` on ranges of the elements, with the loops of the operands' dtype.
template <class Full, class Half>
void for_elements(const ExecutionContext& context, const Tensor& x, Full&& full, Half&& half) {
  context.team().for_ranges(x.elements(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    if (x.dtype == DType::f32)
      full(begin, end);
    else
      half(begin, end);
  });
}

float softplus(float x) { return std::log1p(std::exp(x)); }
float to_bf16(float value) { return to_float(to_bfloat16(value)); }

Curve curve_of(Activation activation, ActivationParameters parameters) {
  Curve curve{activation, {}};
  if (activation == Activation::prelu) curve.coefficients[0] = parameters[0].as<float>()[0];
  if (activation != Activation::xielu) return curve;
  const auto learned = [&](std::size_t i) { return to_bf16(softplus(to_bf16(parameters[i].as<float>()[0]))); };
  curve.coefficients[0] = learned(0);
  curve.coefficients[1] = to_bf16(xielu_beta + learned(1));
  return curve;
}

/// The derivative of a coefficient by its learned number.
double coefficient_slope(Activation activation, const Tensor& parameter) {
  if (activation == Activation::prelu) return 1;
  return 1 / (1 + std::exp(-static_cast<double>(to_bf16(parameter.as<float>()[0]))));
}

void activation_forward(const ExecutionContext& context, Activation activation, const Tensor& x, const Tensor& y,
                        ActivationParameters parameters) {
  const Curve curve = curve_of(activation, parameters);
  const auto loops = [&]<class T>(T) { return ActivationForward<T>{curve, x.as<T>(), y.as<T>()}; };
  for_elements(
      context, x, [&](auto begin, auto end) { pick_activation_forward_f32()(loops(float{}), begin, end); },
      [&](auto begin, auto end) { pick_activation_forward_bf16()(loops(BFloat16{}), begin, end); });
}

void activation_input_gradient(const ExecutionContext& context, Activation activation, const Tensor& dy, const Tensor& x, const Tensor& dx,
                               ActivationParameters parameters) {
  const Curve curve = curve_of(activation, parameters);
  const auto loops = [&]<class T>(T) { return ActivationGradient<T>{curve, dy.as<T>(), x.as<T>(), dx.as<T>()}; };
  for_elements(
      context, x, [&](auto begin, auto end) { pick_activation_gradient_f32()(loops(float{}), begin, end); },
      [&](auto begin, auto end) { pick_activation_gradient_bf16()(loops(BFloat16{}), begin, end); });
}

void glu_forward(const ExecutionContext& context, Activation activation, const Tensor& gate, const Tensor& up, const Tensor& y,
                 ActivationParameters parameters) {
  const Curve curve = curve_of(activation, parameters);
  const auto loops = [&]<class T>(T) { return GluForward<T>{curve, gate.as<T>(), up.as<T>(), y.as<T>()}; };
  for_elements(
      context, gate, [&](auto begin, auto end) { pick_glu_forward_f32()(loops(float{}), begin, end); },
      [&](auto begin, auto end) { pick_glu_forward_bf16()(loops(BFloat16{}), begin, end); });
}

void glu_input_gradient(const ExecutionContext& context, Activation activation, const Tensor& dy, const Tensor& gate, const Tensor& up,
                        const Tensor& d_gate, const Tensor& d_up, ActivationParameters parameters) {
  const Curve curve = curve_of(activation, parameters);
  const auto loops = [&]<class T>(T) { return GluGradient<T>{curve, dy.as<T>(), gate.as<T>(), up.as<T>(), d_gate.as<T>(), d_up.as<T>()}; };
  for_elements(
      context, gate, [&](auto begin, auto end) { pick_glu_gradient_f32()(loops(float{}), begin, end); },
      [&](auto begin, auto end) { pick_glu_gradient_bf16()(loops(BFloat16{}), begin, end); });
}

void activation_parameter_gradient(const ExecutionContext& context, Activation activation, const Tensor& dy, const Tensor& x,
                                   const Tensor* up, ActivationParameters parameters, std::span<const Tensor> d_parameters) {
  constexpr std::int64_t chunk = 4096;
  constexpr std::int64_t chunks_a_round = 512;  // their sums are on the stack, so nothing is allocated however large the tensor is
  const auto terms = [&]<class T>(T) {
    return ParameterTerms<T>{activation, dy.as<T>(), x.as<T>(), up == nullptr ? nullptr : up->as<T>()};
  };
  std::array<std::array<double, max_activation_parameters>, chunks_a_round> sums;
  std::array<double, max_activation_parameters> totals{};
  const std::int64_t elements = x.elements(), chunks = (elements + chunk - 1) / chunk;
  for (std::int64_t first = 0; first < chunks; first += chunks_a_round) {
    const std::int64_t round = std::min(chunks_a_round, chunks - first);
    context.team().for_ranges(round, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t offset = (first + i) * chunk, last = std::min(offset + chunk, elements);
        double* of_chunk = sums[static_cast<std::size_t>(i)].data();
        if (x.dtype == DType::f32)
          pick_activation_terms_f32()(terms(float{}), offset, last, of_chunk);
        else
          pick_activation_terms_bf16()(terms(BFloat16{}), offset, last, of_chunk);
      }
    });
    for (std::int64_t i = 0; i < round; ++i)
      for (std::size_t which = 0; which < totals.size(); ++which) totals[which] += sums[static_cast<std::size_t>(i)][which];
  }
  for (std::size_t which = 0; which < parameters.size(); ++which)
    d_parameters[which].as<float>()[0] += static_cast<float>(totals[which] * coefficient_slope(activation, parameters[which]));
}

const InTable in_table[] = {
    {Backend::cpu, table::activation_forward, activation_forward},
    {Backend::cpu, table::activation_input_gradient, activation_input_gradient},
    {Backend::cpu, table::glu_forward, glu_forward},
    {Backend::cpu, table::glu_input_gradient, glu_input_gradient},
    {Backend::cpu, table::activation_parameter_gradient, activation_parameter_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cpu
