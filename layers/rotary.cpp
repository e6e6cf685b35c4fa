#include "layers/rotary.hpp"

#include <cmath>
#include <numbers>

#include "kernels/base/check.hpp"

namespace millrace::layers {
namespace {

constexpr const char* kWho = "layers.rotary";

std::vector<float> unscaled(double theta, std::int64_t head_dim) {
  std::vector<float> result(static_cast<std::size_t>(head_dim / 2));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
    // The power in double, rounded once: what a correctly rounded powf gives, whichever libm is installed.
    const auto timescale = static_cast<float>(std::pow(static_cast<double>(static_cast<float>(theta)), static_cast<double>(exponent)));
    result[i] = 1.0F / timescale;
  }
  return result;
}

/// torch computes scalar / tensor as reciprocal(tensor) * scalar.
float divide_scalar(float scalar, float by) { return (1.0F / by) * scalar; }

float llama3_scaled(float frequency, const RopeConfig& rope) {
  const auto original = static_cast<double>(rope.original_max_position);
  const auto low = static_cast<float>(original / rope.low_freq_factor);
  const auto high = static_cast<float>(original / rope.high_freq_factor);
  const auto factor = static_cast<float>(rope.factor);
  const float wavelength = divide_scalar(static_cast<float>(2 * std::numbers::pi), frequency);
  if (wavelength > low) return frequency / factor;
  if (wavelength < high) return frequency;
  const float smooth = (divide_scalar(static_cast<float>(original), wavelength) - static_cast<float>(rope.low_freq_factor)) /
                       static_cast<float>(rope.high_freq_factor - rope.low_freq_factor);
  return (1.0F - smooth) * frequency / factor + smooth * frequency;
}

}  // namespace

std::vector<float> inverse_frequencies(const RopeConfig& rope, std::int64_t head_dim) {
  MILLRACE_CHECK(head_dim >= 2 && head_dim % 2 == 0, ExitCode::model, kWho, "head_dim = {}, wanted an even number", head_dim);
  std::vector<float> result = unscaled(rope.theta, head_dim);
  if (rope.kind == RopeKind::none) return result;
  MILLRACE_CHECK(rope.factor > 0, ExitCode::model, kWho, "rope factor = {}, wanted more than 0", rope.factor);
  if (rope.kind == RopeKind::linear) {
    for (float& frequency : result) frequency /= static_cast<float>(rope.factor);
    return result;
  }
  MILLRACE_CHECK(rope.original_max_position > 0 && rope.low_freq_factor > 0 && rope.high_freq_factor > rope.low_freq_factor,
                 ExitCode::model, kWho,
                 "llama3 scaling with low_freq_factor = {}, high_freq_factor = {}, original_max_position_embeddings = {}, wanted 0 < low < "
                 "high and a length",
                 rope.low_freq_factor, rope.high_freq_factor, rope.original_max_position);
  for (float& frequency : result) frequency = llama3_scaled(frequency, rope);
  return result;
}

}  // namespace millrace::layers
