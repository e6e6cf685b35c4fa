#include "kernels/delta_gates.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// The decay of element i and its derivative by a.
struct Decay {
  Decay(const Tensor& a, const Tensor& a_log, const Tensor& dt_bias, DeltaGatesOptions options, std::int64_t i) {
    const auto parameter = [&](const Tensor& x) {
      const float stored = x.as<float>()[i % a.shape[1]];
      return double{options.round_decay ? rounded(a.dtype, stored) : stored};
    };
    const double x = load(a, i) + parameter(dt_bias), rate = -std::exp(parameter(a_log));
    value = rate * (std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))));
    slope = rate * sigmoid(x);
  }
  double value, slope;
};

void delta_gates_forward(const Tensor& a, const Tensor& b, const Tensor& a_log, const Tensor& dt_bias, DeltaGatesOptions options,
                         const Tensor& g, const Tensor& beta) {
  for (std::int64_t i = 0; i < a.elements(); ++i) {
    const auto decay = static_cast<float>(Decay(a, a_log, dt_bias, options, i).value);
    g.as<float>()[i] = options.round_decay ? rounded(a.dtype, decay) : decay;
    beta.as<float>()[i] = rounded(b.dtype, static_cast<float>(sigmoid(load(b, i))));
  }
}

void delta_gates_input_gradient(const Tensor& dg, const Tensor& dbeta, const Tensor& a, const Tensor& b, const Tensor& a_log,
                                const Tensor& dt_bias, DeltaGatesOptions options, const Tensor& da, const Tensor& db) {
  for (std::int64_t i = 0; i < a.elements(); ++i) {
    store(da, i, static_cast<float>(Decay(a, a_log, dt_bias, options, i).slope * dg.as<float>()[i]));
    const double x = load(b, i);
    store(db, i, static_cast<float>(sigmoid(x) * sigmoid(-x) * dbeta.as<float>()[i]));
  }
}

void delta_gates_weight_gradient(const Tensor& dg, const Tensor& a, const Tensor& a_log, const Tensor& dt_bias, DeltaGatesOptions options,
                                 const Tensor& d_a_log, const Tensor& d_dt_bias) {
  const std::int64_t heads = a.shape[1];
  for (std::int64_t h = 0; h < heads; ++h) {
    double d_log = 0, d_bias = 0;
    for (std::int64_t i = h; i < a.elements(); i += heads) {
      const Decay decay(a, a_log, dt_bias, options, i);
      d_log += decay.value * dg.as<float>()[i];
      d_bias += decay.slope * dg.as<float>()[i];
    }
    d_a_log.as<float>()[h] += static_cast<float>(d_log);
    d_dt_bias.as<float>()[h] += static_cast<float>(d_bias);
  }
}

const InTable delta_gates_in_table[] = {
    {Backend::reference, table::delta_gates_forward, without_context<delta_gates_forward>},
    {Backend::reference, table::delta_gates_input_gradient, without_context<delta_gates_input_gradient>},
    {Backend::reference, table::delta_gates_weight_gradient, without_context<delta_gates_weight_gradient>},
};

}  // namespace
}  // namespace millrace::kernels::reference
