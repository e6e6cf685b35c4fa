#pragma once

#include <cstdint>

#include "kernels/base/hyper_gates_options.hpp"

/// The residual map of one token: a matrix of k x k numbers, each of whose rows and columns adds up to 1. Devices call these functions too
/// (--expt-relaxed-constexpr); `exp` is the caller's exponential function.
namespace millrace::kernels {

inline constexpr double sinkhorn_epsilon = 1e-6;

/// p = softmax(x) over `count` numbers.
template <class Real, class Exp>
constexpr void softmax_of(const Real* x, std::int64_t count, Real* p, Exp exp) {
  Real largest = x[0];
  for (std::int64_t i = 1; i < count; ++i) largest = x[i] > largest ? x[i] : largest;
  Real sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += p[i] = exp(x[i] - largest);
  for (std::int64_t i = 0; i < count; ++i) p[i] /= sum;
}

/// dx from p = softmax(x) and dp; dx may be dp.
template <class Real>
constexpr void softmax_gradient(const Real* p, const Real* dp, std::int64_t count, Real* dx) {
  Real mean = 0;
  for (std::int64_t i = 0; i < count; ++i) mean += p[i] * dp[i];
  for (std::int64_t i = 0; i < count; ++i) dx[i] = p[i] * (dp[i] - mean);
}

/// The place of entry `entry` of line `line`: of column `line` if `columns`, else of row `line`.
constexpr std::int64_t place_in_map(bool columns, std::int64_t line, std::int64_t entry, std::int64_t k) {
  return columns ? entry * k + line : line * k + entry;
}

/// Divides every column (or row) by its sum plus ε.
template <class Real>
constexpr void normalise_lines(bool columns, std::int64_t k, Real* m) {
  for (std::int64_t line = 0; line < k; ++line) {
    Real sum = static_cast<Real>(sinkhorn_epsilon);
    for (std::int64_t entry = 0; entry < k; ++entry) sum += m[place_in_map(columns, line, entry, k)];
    for (std::int64_t entry = 0; entry < k; ++entry) m[place_in_map(columns, line, entry, k)] /= sum;
  }
}

/// dm ← the gradient of m from that of y, m normalised by lines: (dy − Σ dy·y over the line) / (sum + ε).
template <class Real>
constexpr void normalise_lines_gradient(bool columns, std::int64_t k, const Real* m, Real* dm) {
  for (std::int64_t line = 0; line < k; ++line) {
    Real sum = static_cast<Real>(sinkhorn_epsilon), along = 0;
    for (std::int64_t entry = 0; entry < k; ++entry) sum += m[place_in_map(columns, line, entry, k)];
    for (std::int64_t entry = 0; entry < k; ++entry) {
      const std::int64_t at = place_in_map(columns, line, entry, k);
      along += dm[at] * (m[at] / sum);
    }
    for (std::int64_t entry = 0; entry < k; ++entry) {
      const std::int64_t at = place_in_map(columns, line, entry, k);
      dm[at] = (dm[at] - along) / sum;
    }
  }
}

/// The number of normalisations: by columns, then by rows and by columns in turn.
constexpr std::int64_t sinkhorn_steps(std::int64_t iterations) { return 2 * iterations - 1; }
constexpr bool by_columns(std::int64_t step) { return step % 2 == 0; }

/// The softmax of every row of the logits, plus ε: where Sinkhorn and Knopp begin.
template <class Real, class Exp>
constexpr void begin_sinkhorn(const Real* logits, std::int64_t k, Real* m, Exp exp) {
  for (std::int64_t row = 0; row < k; ++row) softmax_of(logits + row * k, k, m + row * k, exp);
  for (std::int64_t i = 0; i < k * k; ++i) m[i] += static_cast<Real>(sinkhorn_epsilon);
}

template <class Real, class Exp>
constexpr void sinkhorn(const Real* logits, std::int64_t k, std::int64_t iterations, Real* m, Exp exp) {
  begin_sinkhorn(logits, k, m, exp);
  for (std::int64_t step = 0; step < sinkhorn_steps(iterations); ++step) normalise_lines(by_columns(step), k, m);
}

/// d ← the gradient of the logits from that of the map. `steps`: room for the matrix before every step, k·k numbers each, or null: then
/// each is computed again from the logits, and `m` (k·k numbers) holds it.
template <class Real, class Exp>
constexpr void sinkhorn_gradient(const Real* logits, std::int64_t k, std::int64_t iterations, Real* steps, Real* m, Real* d, Exp exp) {
  const std::int64_t count = sinkhorn_steps(iterations), size = k * k;
  if (steps != nullptr) {
    begin_sinkhorn(logits, k, steps, exp);
    for (std::int64_t step = 0; step + 1 < count; ++step) {
      for (std::int64_t i = 0; i < size; ++i) steps[(step + 1) * size + i] = steps[step * size + i];
      normalise_lines(by_columns(step), k, steps + (step + 1) * size);
    }
  }
  for (std::int64_t step = count - 1; step >= 0; --step) {
    const Real* before = m;
    if (steps != nullptr) {
      before = steps + step * size;
    } else {
      begin_sinkhorn(logits, k, m, exp);
      for (std::int64_t earlier = 0; earlier < step; ++earlier) normalise_lines(by_columns(earlier), k, m);
    }
    normalise_lines_gradient(by_columns(step), k, before, d);
  }
  for (std::int64_t row = 0; row < k; ++row) {
    softmax_of(logits + row * k, k, m + row * k, exp);
    softmax_gradient(m + row * k, d + row * k, k, d + row * k);
  }
}

/// places[i] = where permutation `number` of 0 … k − 1, in lexicographic order, sends i.
constexpr void permutation(std::int64_t number, std::int64_t k, std::int64_t* places) {
  for (std::int64_t i = 0; i < k; ++i) places[i] = i;
  for (std::int64_t i = 0; i < k; ++i) {
    const std::int64_t of_rest = factorial(k - 1 - i), chosen = i + number / of_rest;
    number %= of_rest;
    const std::int64_t place = places[chosen];
    for (std::int64_t j = chosen; j > i; --j) places[j] = places[j - 1];
    places[i] = place;
  }
}

/// map = Σ_p weights[p] · Π_p, Π_p[i, p(i)] = 1.
template <class Real>
constexpr void mean_of_permutations(const Real* weights, std::int64_t k, Real* map) {
  for (std::int64_t i = 0; i < k * k; ++i) map[i] = 0;
  std::int64_t places[max_permuted_streams] = {};
  for (std::int64_t p = 0; p < factorial(k); ++p) {
    permutation(p, k, places);
    for (std::int64_t i = 0; i < k; ++i) map[i * k + places[i]] += weights[p];
  }
}

/// d_weights[p] = Σ_i d_map[i, p(i)].
template <class Real>
constexpr void mean_of_permutations_gradient(const Real* d_map, std::int64_t k, Real* d_weights) {
  std::int64_t places[max_permuted_streams] = {};
  for (std::int64_t p = 0; p < factorial(k); ++p) {
    permutation(p, k, places);
    d_weights[p] = 0;
    for (std::int64_t i = 0; i < k; ++i) d_weights[p] += d_map[i * k + places[i]];
  }
}

}  // namespace millrace::kernels
