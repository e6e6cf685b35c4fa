#pragma once

#include <algorithm>
#include <cmath>

/// How far a right result may be from the truth, by its arithmetic alone: what a test takes as its tolerance.
namespace millrace::tests {

/// Unit roundoffs: the largest relative error of one rounding to nearest.
inline constexpr double fp32_roundoff = 0x1p-24, bf16_roundoff = 0x1p-8;

/// Relative error after `n` roundings one behind the other, times the sum of the terms' magnitudes where they are a sum's: n·u at most
/// (Higham, Accuracy and Stability of Numerical Algorithms, chapter 3). Roundings are as good as independent, so that many of them add as
/// √n does: six deviations (Higham and Mary, SIAM Journal on Scientific Computing 41, 2019).
inline double roundings(double n, double roundoff = fp32_roundoff) { return std::min(n, 6 * std::sqrt(n)) * roundoff; }

/// Where an exact result lies.
struct Interval {
  double low = 0, high = 0;
};
[[nodiscard]] inline Interval around(double value, double error) { return {value - error, value + error}; }
[[nodiscard]] inline Interval operator+(Interval a, Interval b) { return {a.low + b.low, a.high + b.high}; }
[[nodiscard]] inline Interval operator*(Interval a, double factor) {
  return {std::min(a.low * factor, a.high * factor), std::max(a.low * factor, a.high * factor)};
}
/// The same after `n` roundings of what it is the magnitude of.
[[nodiscard]] inline Interval widened(Interval a, double error) { return {a.low - error, a.high + error}; }

}  // namespace millrace::tests
