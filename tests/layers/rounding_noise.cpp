#include "tests/layers/rounding_noise.hpp"

#include <cmath>
#include <string_view>

#include "kernels/base/dtype.hpp"
#include "layers/partition.hpp"
#include "runtime/passes/differentiate.hpp"

namespace millrace::layers::testing {
namespace {

/// Roundings inside of an operation, before that of its result: x·r before the norm's scale, rotary's cosines and sines, the
/// gradient of the logits before it is multiplied.
int inner_roundings(std::string_view rule) {
  return rule == "rms_norm" || rule == "rope" || rule == "linear_cross_entropy_input_gradient" ? 1 : 0;
}

}  // namespace

Roundings::Roundings(const ModelConfig& config, StageOptions options) {
  options.compute = kernels::DType::bf16;
  const auto set = runtime::differentiate(build_stage(config, uniform_layout(chain_of(config), 1).at(0), options), {});
  for (const auto& program : set.programs)
    for (const auto& operation : program)
      for (const auto output : operation.outputs)
        if (const auto& value = set.value(output); value.type.dtype == kernels::DType::bf16)
          values.try_emplace(value.name, 1 + inner_roundings(operation.rule->name()));
  for (const auto& value : set.values)
    if (value.role == runtime::Role::parameter && value.type.dtype == kernels::DType::bf16) parameters.insert(value.name);
}

float disturbed(float x, float draw) {
  if (x == 0 || !std::isfinite(x)) return x;
  return x + std::ldexp(draw, std::ilogb(x) - 8);
}

float rounded(float x) { return kernels::to_float(kernels::to_bfloat16(x)); }

float RoundingNoise::draw() {
  state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
  return static_cast<float>(static_cast<std::int32_t>(state_ >> 32)) / 2147483648.0F;
}

void RoundingNoise::after(const Call& call) {
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    const auto& name = call.programs.value(call.operation.outputs[i]).name;
    const auto found = roundings_.values.find(name);
    if (found == roundings_.values.end()) continue;
    met_.insert(name);
    auto* values = call.outputs[i].as<float>();
    for (int rounding = 0; rounding < found->second; ++rounding)
      for (std::int64_t e = 0; e < call.outputs[i].elements(); ++e) values[e] = disturbed(values[e], draw());
  }
}

}  // namespace millrace::layers::testing
