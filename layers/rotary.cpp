#include "layers/rotary.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/base/check.hpp"

namespace millrace::layers {
namespace {

constexpr const char* rotary_component = "layers.rotary";

std::vector<float> unscaled(double theta, std::int64_t dim) {
  std::vector<float> result(static_cast<std::size_t>((dim + 1) / 2));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(dim);
    // Computed in double and rounded once: the result of a correctly rounded powf, independent of the installed libm.
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
  if (wavelength < high || rope.high_freq_factor == rope.low_freq_factor) return frequency;  // equal factors: there is nothing between
  const float smooth = (divide_scalar(static_cast<float>(original), wavelength) - static_cast<float>(rope.low_freq_factor)) /
                       static_cast<float>(rope.high_freq_factor - rope.low_freq_factor);
  return (1.0F - smooth) * frequency / factor + smooth * frequency;
}

/// Index of the frequency with `rotations` rotations within the old context.
double yarn_index(double rotations, const RopeConfig& rope, std::int64_t dim) {
  const double turns = static_cast<double>(rope.original_max_position) / (rotations * 2 * std::numbers::pi);
  return static_cast<double>(dim) * std::log(turns) / (2 * std::log(rope.theta));
}

void scale_by_yarn(std::vector<float>& frequencies, const RopeConfig& rope, std::int64_t dim) {
  MILLRACE_CHECK(dim % 2 == 0, ExitCode::model, rotary_component,
                 "yarn scaling with proportion = {}, which rotates {} features, expected an even number", rope.proportion, dim);
  MILLRACE_CHECK(
      rope.original_max_position > 0 && rope.beta_slow > 0 && rope.beta_fast >= rope.beta_slow && rope.theta > 1, ExitCode::model,
      rotary_component,
      "yarn scaling with beta_fast = {}, beta_slow = {}, original_max_position_embeddings = {}, rope_theta = {}, expected fast >= "
      "slow > 0, a length and a base above 1",
      rope.beta_fast, rope.beta_slow, rope.original_max_position, rope.theta);
  double low = yarn_index(rope.beta_fast, rope, dim), high = yarn_index(rope.beta_slow, rope, dim);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(dim - 1));
  if (low == high) high += 0.001;
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const float ramp = (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low);
    const float kept = 1.0F - std::clamp(ramp, 0.0F, 1.0F);
    const float timescale = 1.0F / frequencies[i];
    const float scaled = 1.0F / (static_cast<float>(rope.factor) * timescale);
    frequencies[i] = scaled * (1.0F - kept) + frequencies[i] * kept;
  }
}

/// The base for a row of `sequence` tokens. transformers computes it in fp32 where the row is longer than the old context.
double dynamic_theta(const RopeConfig& rope, std::int64_t dim, std::int64_t sequence) {
  MILLRACE_CHECK(rope.original_max_position > 0 && dim > 2, ExitCode::model, rotary_component,
                 "dynamic scaling with original_max_position_embeddings = {}, and {} rotated features per head, expected a length and 3 or "
                 "more",
                 rope.original_max_position, dim);
  if (sequence <= rope.original_max_position) return rope.theta;
  const float stretch = static_cast<float>(rope.factor) * static_cast<float>(sequence) / static_cast<float>(rope.original_max_position) -
                        static_cast<float>(rope.factor - 1);
  const auto exponent = static_cast<double>(static_cast<float>(static_cast<double>(dim) / static_cast<double>(dim - 2)));
  return static_cast<double>(static_cast<float>(rope.theta) * static_cast<float>(std::pow(static_cast<double>(stretch), exponent)));
}

void scale_by_longrope(std::vector<float>& frequencies, const RopeConfig& rope, std::int64_t sequence) {
  const bool is_long = sequence > rope.original_max_position;
  const std::vector<double>& factors = is_long ? rope.long_factors : rope.short_factors;
  MILLRACE_CHECK(rope.original_max_position > 1 && factors.size() == frequencies.size(), ExitCode::model, rotary_component,
                 "longrope scaling with original_max_position_embeddings = {} and {} {} factors, expected 2 or more, and {} factors",
                 rope.original_max_position, factors.size(), is_long ? "long" : "short", frequencies.size());
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const float timescale = 1.0F / frequencies[i];
    frequencies[i] = 1.0F / (static_cast<float>(factors[i]) * timescale);
  }
}

void scale_by_proportion(std::vector<float>& frequencies, const RopeConfig& rope, std::int64_t head_dim) {
  const auto turning = static_cast<std::size_t>(static_cast<double>(head_dim) * rope.proportion) / 2;
  for (std::size_t i = 0; i < frequencies.size(); ++i)
    frequencies[i] = i < turning ? frequencies[i] / static_cast<float>(rope.factor) : 0.0F;
}

void scale_by_llama3(std::vector<float>& frequencies, const RopeConfig& rope) {
  MILLRACE_CHECK(
      rope.original_max_position > 0 && rope.low_freq_factor > 0 && rope.high_freq_factor >= rope.low_freq_factor, ExitCode::model,
      rotary_component,
      "llama3 scaling with low_freq_factor = {}, high_freq_factor = {}, original_max_position_embeddings = {}, expected 0 < low <= "
      "high and a length",
      rope.low_freq_factor, rope.high_freq_factor, rope.original_max_position);
  for (float& frequency : frequencies) frequency = llama3_scaled(frequency, rope);
}

}  // namespace

float rotary_factor(const RopeConfig& rope) {
  if (rope.kind != RopeKind::yarn && rope.kind != RopeKind::longrope) return 1.0F;
  if (rope.attention_factor > 0) return static_cast<float>(rope.attention_factor);
  if (rope.factor <= 1) return 1.0F;
  if (rope.kind == RopeKind::yarn) return static_cast<float>(0.1 * std::log(rope.factor) + 1.0);
  return static_cast<float>(std::sqrt(1 + std::log(rope.factor) / std::log(static_cast<double>(rope.original_max_position))));
}

std::vector<float> inverse_frequencies(const RopeConfig& rope, std::int64_t head_dim, std::int64_t sequence) {
  MILLRACE_CHECK(head_dim >= 2 && head_dim % 2 == 0, ExitCode::model, rotary_component, "head_dim = {}, expected an even number", head_dim);
  MILLRACE_CHECK(rope.factor > 0, ExitCode::model, rotary_component, "rope factor = {}, expected more than 0", rope.factor);
  MILLRACE_CHECK(rope.proportion >= 0 && rope.proportion <= 1, ExitCode::model, rotary_component, "proportion = {}, expected from 0 to 1",
                 rope.proportion);
  const std::int64_t dim = rotary_dim(rope, head_dim);
  MILLRACE_CHECK(dim > 0, ExitCode::model, rotary_component, "proportion = {} of heads of {}, expected at least one feature",
                 rope.proportion, head_dim);
  std::vector<float> result = unscaled(rope.kind == RopeKind::dynamic ? dynamic_theta(rope, dim, sequence) : rope.theta, dim);
  switch (rope.kind) {
    case RopeKind::none:
    case RopeKind::dynamic:
      break;
    case RopeKind::linear:
      for (float& frequency : result) frequency /= static_cast<float>(rope.factor);
      break;
    case RopeKind::llama3:
      scale_by_llama3(result, rope);
      break;
    case RopeKind::yarn:
      scale_by_yarn(result, rope, dim);
      break;
    case RopeKind::proportional:
      scale_by_proportion(result, rope, head_dim);
      break;
    case RopeKind::longrope:
      scale_by_longrope(result, rope, sequence);
      break;
  }
  return result;
}

}  // namespace millrace::layers
