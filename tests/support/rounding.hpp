#pragma once

#include <algorithm>
#include <cmath>

/// Error bounds of correct results, derived from the arithmetic alone, for use as tolerances.
namespace millrace::tests {

/// Unit roundoffs: the largest relative error of one rounding to nearest.
inline constexpr double fp32_roundoff = 0x1p-24, bf16_roundoff = 0x1p-8;

/// Relative error after `n` consecutive roundings; for a sum, multiply by the sum of its terms' magnitudes. The bound n·u always
/// holds (Higham, Accuracy and Stability of Numerical Algorithms, chapter 3). Roundings are effectively independent, so that many
/// of them add up as √n: six deviations (Higham and Mary, SIAM Journal on Scientific Computing 41, 2019).
inline double roundings(double n, double roundoff = fp32_roundoff) { return std::min(n, 6 * std::sqrt(n)) * roundoff; }

/// An interval that contains an exact result.
struct Interval {
  double low = 0, high = 0;
};
[[nodiscard]] inline Interval around(double value, double error) { return {value - error, value + error}; }
[[nodiscard]] inline Interval operator+(Interval a, Interval b) { return {a.low + b.low, a.high + b.high}; }
[[nodiscard]] inline Interval operator*(Interval a, double factor) {
  return {std::min(a.low * factor, a.high * factor), std::max(a.low * factor, a.high * factor)};
}
/// The interval widened by an error.
[[nodiscard]] inline Interval widened(Interval a, double error) { return {a.low - error, a.high + error}; }

}  // namespace millrace::tests
