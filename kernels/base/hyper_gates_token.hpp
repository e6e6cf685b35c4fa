#pragma once

#include <cstdint>

#include "kernels/base/residual_map.hpp"

namespace millrace::kernels {

/// The gates of one token (kernels/hyper_gates.hpp): `x` and `y` are its numbers in Real. Devices call it too.
template <class Real, class Exp, class Round>
constexpr void hyper_gates_of_token(const Real* x, const HyperGatesOptions& options, Real* y, Exp exp, Round round) {
  const std::int64_t k = options.streams;
  for (std::int64_t i = 0; i < k; ++i) {
    y[i] = 1 / (1 + exp(-x[i])) + static_cast<Real>(1e-6);
    y[k + i] = 2 / (1 + exp(-x[k + i]));
  }
  if (!options.lite) return sinkhorn(x + 2 * k, k, options.iterations, y + 2 * k, exp);
  Real weights[factorial(max_permuted_streams)] = {};
  softmax_of(x + 2 * k, factorial(k), weights, exp);
  for (std::int64_t p = 0; p < factorial(k); ++p) weights[p] = round(weights[p]);
  mean_of_permutations(weights, k, y + 2 * k);
}

/// Its gradient: d has the 2·k + k·k numbers of dy, dx gets those of x. `steps` as in sinkhorn_gradient().
template <class Real, class Exp>
constexpr void hyper_gates_gradient_of_token(const Real* d, const Real* x, const HyperGatesOptions& options, Real* steps, Real* dx,
                                             Exp exp) {
  const std::int64_t k = options.streams;
  for (std::int64_t i = 0; i < k; ++i) {
    const Real pre = 1 / (1 + exp(-x[i])), post = 1 / (1 + exp(-x[k + i]));
    dx[i] = d[i] * pre * (1 - pre);
    dx[k + i] = 2 * d[k + i] * post * (1 - post);
  }
  if (!options.lite) {
    Real map[max_hyper_streams * max_hyper_streams] = {};
    for (std::int64_t i = 0; i < k * k; ++i) dx[2 * k + i] = d[2 * k + i];
    return sinkhorn_gradient(x + 2 * k, k, options.iterations, steps, map, dx + 2 * k, exp);
  }
  Real weights[factorial(max_permuted_streams)] = {};
  softmax_of(x + 2 * k, factorial(k), weights, exp);
  mean_of_permutations_gradient(d + 2 * k, k, dx + 2 * k);
  softmax_gradient(weights, dx + 2 * k, factorial(k), dx + 2 * k);
}

/// At least as many numbers as a token has, in x or in y.
inline constexpr std::int64_t max_gate_numbers = 2 * max_hyper_streams + factorial(max_permuted_streams);
static_assert(factorial(max_permuted_streams) >= max_hyper_streams * max_hyper_streams);

}  // namespace millrace::kernels
