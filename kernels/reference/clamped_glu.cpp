#include "kernels/clamped_glu.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

/// One element of the clamped operands, and whether a gradient passes.
struct Clamped {
  Clamped(double gate, double up, ClampedGluOptions options)
      : g(std::min(gate, double{options.limit})),
        u(std::clamp(up, -double{options.limit}, double{options.limit})),
        s(1 / (1 + std::exp(-double{options.steepness} * g))),
        gate_passes(gate <= options.limit),
        up_passes(std::abs(up) <= options.limit) {}
  double g, u, s;
  bool gate_passes, up_passes;
};

void clamped_glu_forward(const Tensor& gate, const Tensor& up, ClampedGluOptions options, const Tensor& y) {
  for (std::int64_t i = 0; i < y.elements(); ++i) {
    const Clamped at(load(gate, i), load(up, i), options);
    store(y, i, static_cast<float>((at.u + options.offset) * at.g * at.s));
  }
}

void clamped_glu_input_gradient(const Tensor& dy, const Tensor& gate, const Tensor& up, ClampedGluOptions options, const Tensor& d_gate,
                                const Tensor& d_up) {
  for (std::int64_t i = 0; i < dy.elements(); ++i) {
    const Clamped at(load(gate, i), load(up, i), options);
    const double slope = at.s * (1 + options.steepness * at.g * (1 - at.s));
    store(d_gate, i, at.gate_passes ? static_cast<float>(load(dy, i) * (at.u + options.offset) * slope) : 0.0F);
    store(d_up, i, at.up_passes ? static_cast<float>(load(dy, i) * at.g * at.s) : 0.0F);
  }
}

const InTable clamped_glu_in_table[] = {
    {Backend::reference, table::clamped_glu_forward, without_context<clamped_glu_forward>},
    {Backend::reference, table::clamped_glu_input_gradient, without_context<clamped_glu_input_gradient>},
};

}  // namespace
}  // namespace millrace::kernels::reference
