#include "kernels/muon.hpp"

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

void muon_momentum(const MuonMomentum& rule, const Tensor& gradient, const Tensor& momentum) {
  for (std::int64_t i = 0; i < gradient.elements(); ++i) {
    float& g = gradient.as<float>()[i];
    const float scaled = g * rule.gradient_scale;
    const float m = rule.beta * load(momentum, i) + rule.rest * scaled;
    store(momentum, i, m);
    g = rule.momentum_share * m + rule.gradient_share * scaled;
  }
}

void muon_normalize(const MuonNorm& rule, const Tensor& square, const Tensor& x) {
  const float norm = muon_divisor(rule, *square.as<double>());
  for (std::int64_t i = 0; i < x.elements(); ++i) x.as<float>()[i] /= norm;
}

void muon_polynomial(const MuonPolynomial& rule, const Tensor& gram, const Tensor& value) {
  const std::int64_t side = gram.shape[0];
  for (std::int64_t i = 0; i < gram.elements(); ++i) {
    float& entry = value.as<float>()[i];
    entry = rule.b * gram.as<float>()[i] + rule.c * entry;
    if (i % side == i / side) entry += rule.a;
  }
}

void muon_step(const MuonStep& rule, const Tensor& x, const Tensor& parameter, const Tensor& gradient, const Tensor& copy) {
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    float& p = parameter.as<float>()[i];
    p = p * rule.keep - rule.rate * x.as<float>()[i];
    if (copy) copy.as<BFloat16>()[i] = to_bfloat16(p);
    gradient.as<float>()[i] = 0.0F;
  }
}

const InTable muon_in_table[] = {
    {Backend::reference, table::muon_momentum, without_context<muon_momentum>},
    {Backend::reference, table::muon_normalize, without_context<muon_normalize>},
    {Backend::reference, table::muon_polynomial, without_context<muon_polynomial>},
    {Backend::reference, table::muon_step, without_context<muon_step>},
};

}  // namespace
}  // namespace millrace::kernels::reference
