#pragma once

#include "layers/layer_spec.hpp"
#include "runtime/program/builder.hpp"
#include "runtime/program/operations.hpp"

namespace millrace::layers {

/// The parameters of per-layer inputs, for L layers and a width p of each one's part.
struct PerLayerParameters {
  runtime::ValueId table;       // [vocab_size, L·p]
  runtime::ValueId projection;  // [L·p, D], or with input_major [D, L·p]
  runtime::ValueId norm;        // f32 [p]
  bool input_major = false;
};

/// What the layers know of each token by themselves: x [T, D], the embedding as layer 0 receives it → [T, L·p], the parts of the layers in
/// their order: (√p·table[token] + norm(x·projection / √D)) / √2, each part normed by itself.
[[nodiscard]] runtime::ValueId per_layer_inputs(runtime::ProgramBuilder& builder, const ModelSpec& model, runtime::ValueId x,
                                                const PerLayerParameters& parameters, const kernels::RmsNormOptions& norm);

}  // namespace millrace::layers
