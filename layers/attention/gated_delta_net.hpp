#pragma once

#include <cstdint>
#include <string>

#include "layers/layer_spec.hpp"
#include "runtime/program/builder.hpp"
#include "runtime/program/operations.hpp"

namespace millrace::layers {

/// What a delta net takes from its projections: queries, keys and values before the convolution, qkv [T, spec.channels()]; the gate of the
/// result, z [T, spec.value_width()]; and the inputs of the delta rule's gates, b and a [T, spec.value_heads].
struct DeltaNetInputs {
  runtime::ValueId qkv, z, b, a;
};

/// Its weights apart from projections: the convolution's, f32 [spec.channels(), 1, spec.taps] or without the axis of 1; A_log and dt_bias,
/// f32 [spec.value_heads]; the scale of the norm of its result, f32 [spec.value_head_dim].
struct DeltaNetWeights {
  runtime::ValueId convolution, a_log, dt_bias, norm;
};

/// Takes two projections apart whose outputs are grouped by key head (spec.grouped). With G value heads per key head, qkvz [T,
/// Hk·(2·dk + 2·G·dv)] has for each key head its query, its key, G values and G gates, and ba [T, Hk·2·G] has G numbers b and G numbers a.
[[nodiscard]] DeltaNetInputs ungrouped(runtime::ProgramBuilder& builder, runtime::ValueId qkvz, runtime::ValueId ba,
                                       const DeltaNetSpec& spec, const std::string& name);

/// The mixer between its projections → [T, spec.value_width()]: queries, keys and values pass the convolution and its activation; queries
/// and keys are divided by their lengths; the gated delta rule mixes the tokens (kernels/gated_delta_rule.hpp); the result is normalised
/// head by head and multiplied by silu(z). `name` begins the names of operations. Labels: query_proj, key_proj and value_proj (as the rule
/// reads them), attention_out (the rule's result).
[[nodiscard]] runtime::ValueId delta_net(runtime::ProgramBuilder& builder, const DeltaNetInputs& inputs, const DeltaNetWeights& weights,
                                         const DeltaNetSpec& spec, const kernels::RmsNormOptions& norm_form, const std::string& name);

/// The whole mixer with the weights of transformers' Qwen3-Next or Qwen3.5 under `module`: x [T, width] → [T, width]. in_proj_qkvz and
/// in_proj_ba if spec.grouped, else in_proj_qkv, in_proj_z, in_proj_b and in_proj_a (each .weight [outputs, width]); conv1d.weight
/// [channels, 1, taps]; A_log and dt_bias; norm.weight; out_proj.weight [width, value_width]. Labels: those of delta_net(), and out_proj
/// (result).
[[nodiscard]] runtime::ValueId gated_delta_net(runtime::ProgramBuilder& builder, runtime::ValueId x, std::int64_t width,
                                               const DeltaNetSpec& spec, double norm_epsilon, const std::string& module);

}  // namespace millrace::layers
