#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/layers/model_fixture.hpp"

/// Compares gradients of whole models with differences of the loss.
namespace millrace::layers::testing {

/// The loss of one target: the sum of the language model's, and the auxiliary terms of routers as they are.
inline double whole_loss(const runtime::StepLoss& loss) {
  double sum = 0;
  for (const auto& term : loss.terms) sum += term.auxiliary ? term.value : term.sum;
  return sum;
}

inline double norm(const std::vector<float>& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

/// Random ±1, divided by the root of their number: a direction of length 1.
inline std::vector<float> random_direction(std::size_t size, std::uint32_t seed) {
  const auto draws = random_ids(size, 2, seed);
  std::vector<float> direction(size);
  for (std::size_t i = 0; i < size; ++i) direction[i] = static_cast<float>((2 * draws[i] - 1) / std::sqrt(static_cast<double>(size)));
  return direction;
}

/// Whether the gradient of every tensor is the slope of the loss along a random direction. Each tensor moves alone: along the gradient
/// itself, or with all tensors together, a missing gradient would not be noticed. `rounds(name)`: the tensor is rounded to bf16 when it is
/// used, so that only a step of many roundings has a slope.
template <class Rounds>
void expect_gradients_are_slopes(Model& model, const runtime::FillBatch& fill, Rounds&& rounds) {
  (void)model.loop().accumulate(model.context(), 1, 1, fill);
  const auto specs = model_parameters(model.config());
  double most = 0;
  for (const auto& spec : specs) most = std::max(most, norm(model.gradient(spec.name)));
  for (const auto& spec : specs) {
    if (!spec.trained) continue;
    const auto gradient = model.gradient(spec.name);
    const auto master = model.master(spec.name);
    const std::vector<float> before(master.begin(), master.end());
    // The loss is curved and in fp32: a step of h has an error of h² times a part of the third derivative, plus 1e-6 / h.
    const double step = rounds(spec.name) ? 0.1 : 3e-3, bound = rounds(spec.name) ? 5e-2 : 1e-2;
    const auto direction = random_direction(gradient.size(), 1);
    const auto loss_at = [&](double distance) {
      for (std::size_t i = 0; i < before.size(); ++i) master[i] = before[i] + static_cast<float>(distance * direction[i]);
      model.refresh_copies();
      return whole_loss(model.loop().evaluate(model.context(), 1, fill).mean());
    };
    double expected = 0;
    for (std::size_t i = 0; i < gradient.size(); ++i) expected += static_cast<double>(gradient[i]) * direction[i];
    const double tolerance = bound * norm(gradient) + 1e-5 * most;
    // Where a router's choice turns between the two points the loss jumps. The points of a smaller step lie on one side of the jump, while
    // a gradient that is wrong is so at every step.
    const auto slope_at = [&](double distance) { return (loss_at(distance) - loss_at(-distance)) / (2 * distance); };
    double slope = slope_at(step);
    for (const double part : {0.25, 0.0625})
      if (model.config().experts > 0 && std::abs(slope - expected) > tolerance) slope = slope_at(part * step);
    EXPECT_NEAR(slope, expected, tolerance) << spec.name;
    std::copy(before.begin(), before.end(), master.begin());
    model.refresh_copies();
  }
}

}  // namespace millrace::layers::testing
