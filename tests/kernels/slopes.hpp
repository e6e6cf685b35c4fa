#pragma once

#include <algorithm>
#include <cmath>

#include "tests/kernels/fixture.hpp"

namespace millrace::kernels::testing {

/// Moves every element of x, f32, up and down by `step`, and expects `gradient` to be scale · the slope of loss(), which reads x. Returns
/// the largest slope in size, so that a test can show that its tolerance is small beside it.
template <class Loss>
double expect_slopes(Data& x, const Data& gradient, double scale, double step, double tolerance, Loss&& loss) {
  double largest = 0;
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    const double before = x.get(i);
    const auto loss_at = [&](double value) {
      x.set(i, value);
      return loss();
    };
    const auto high = static_cast<float>(before + step), low = static_cast<float>(before - step);
    const double above = loss_at(high), below = loss_at(low);
    x.set(i, before);
    const double slope = scale * (above - below) / (static_cast<double>(high) - static_cast<double>(low));
    EXPECT_NEAR(gradient.get(i), slope, tolerance) << i;
    largest = std::max(largest, std::abs(slope));
  }
  return largest;
}

}  // namespace millrace::kernels::testing
