#include "layers/attention/gated_delta_net.hpp"

#include <cmath>

#include "runtime/program/operations.hpp"

namespace millrace::layers {

using kernels::Activation;
using runtime::ProgramBuilder;
using runtime::ValueId;

namespace {

/// transformers and MaxText have this number in their code.
constexpr float length_epsilon = 1e-6F;

}  // namespace

DeltaNetInputs ungrouped(ProgramBuilder& builder, ValueId qkvz, ValueId ba, const DeltaNetSpec& spec, const std::string& name) {
  const std::int64_t group = spec.value_heads / spec.key_heads, values = group * spec.value_head_dim;
  const auto parts =
      runtime::split_heads(builder, qkvz, spec.key_heads, {spec.key_head_dim, spec.key_head_dim, values, values}, name + ".qkvz_split");
  const auto gates = runtime::split_heads(builder, ba, spec.key_heads, {group, group}, name + ".ba_split");
  const ValueId qkv = runtime::join_heads(builder, {parts[0], parts[1], parts[2]}, {.heads = 1}, name + ".qkv_join");
  return {qkv, parts[3], gates[0], gates[1]};
}

ValueId delta_net(ProgramBuilder& builder, const DeltaNetInputs& inputs, const DeltaNetWeights& weights, const DeltaNetSpec& spec,
                  const kernels::RmsNormOptions& norm_form, const std::string& name) {
  const ValueId segments = builder.batch("segments");
  const bool silu = spec.activation == Activation::silu;  // which the kernel has
  const ValueId sum = runtime::short_convolution(builder, inputs.qkv, weights.convolution, segments,
                                                 {.silu = silu, .reset_at_segments = spec.reset_at_segments}, name + ".conv1d");
  const ValueId mixed = silu ? sum : runtime::activate(builder, spec.activation, sum, name + ".activation");
  const auto parts = runtime::split(builder, mixed, {spec.key_width(), spec.key_width(), spec.value_width()}, name + ".qkv_split");
  const kernels::L2NormOptions length{.width = spec.key_head_dim, .epsilon = length_epsilon};
  const ValueId q = runtime::l2_norm(builder, parts[0], length, name + ".q_norm"),
                k = runtime::l2_norm(builder, parts[1], length, name + ".k_norm");
  builder.label(q, "query_proj");
  builder.label(k, "key_proj");
  builder.label(parts[2], "value_proj");
  const auto [decay, beta] =
      runtime::delta_gates(builder, inputs.a, inputs.b, weights.a_log, weights.dt_bias, {.round_decay = spec.round_decay}, name + ".gates");
  const ValueId out = runtime::gated_delta_rule(builder, q, k, parts[2], decay, beta, segments,
                                                {.head_k_dim = spec.key_head_dim,
                                                 .head_v_dim = spec.value_head_dim,
                                                 .scale = 1.0F / std::sqrt(static_cast<float>(spec.key_head_dim)),
                                                 .reset_at_segments = spec.reset_at_segments},
                                                name + ".delta_rule");
  builder.label(out, "attention_out");
  const ValueId normed = runtime::rms_norm(builder, out, weights.norm, norm_form, name + ".norm");
  return runtime::glu(builder, Activation::silu, inputs.z, normed, name + ".gate");
}

ValueId gated_delta_net(ProgramBuilder& builder, ValueId x, std::int64_t width, const DeltaNetSpec& spec, double norm_epsilon,
                        const std::string& module) {
  const std::string scope = "linear_attn";
  const auto project = [&](ValueId from, const char* name, std::int64_t outputs, std::int64_t inputs) {
    const ValueId weight = builder.parameter(module + "." + name + ".weight", {outputs, inputs});
    return runtime::linear(builder, from, weight, scope + "." + name);
  };
  DeltaNetInputs inputs;
  if (spec.grouped) {
    const ValueId qkvz = project(x, "in_proj_qkvz", spec.channels() + spec.value_width(), width);
    inputs = ungrouped(builder, qkvz, project(x, "in_proj_ba", 2 * spec.value_heads, width), spec, scope);
  } else {
    inputs.qkv = project(x, "in_proj_qkv", spec.channels(), width);
    inputs.z = project(x, "in_proj_z", spec.value_width(), width);
    inputs.b = project(x, "in_proj_b", spec.value_heads, width);
    inputs.a = project(x, "in_proj_a", spec.value_heads, width);
  }
  const auto in_f32 = [&](const char* name, kernels::Shape shape) {
    return builder.parameter(module + "." + name, shape, runtime::in_f32);
  };
  const DeltaNetWeights weights{in_f32("conv1d.weight", {spec.channels(), 1, spec.taps}), in_f32("A_log", {spec.value_heads}),
                                in_f32("dt_bias", {spec.value_heads}), in_f32("norm.weight", {spec.value_head_dim})};
  const ValueId mixed = delta_net(builder, inputs, weights, spec, {.epsilon = static_cast<float>(norm_epsilon)}, scope);
  const ValueId out = project(mixed, "out_proj", width, spec.value_width());
  builder.label(out, "out_proj");
  return out;
}

}  // namespace millrace::layers
