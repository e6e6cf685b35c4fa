#pragma once

#include <optional>

#include "layers/layer_spec.hpp"
#include "layers/model_config.hpp"

namespace millrace::layers {

/// The layer whose keys and values layer `index` attends to, if that is one of the last model.kv_shared_layers: the last layer of its kind
/// before these. Throws Error(model) naming the kind if there is none.
[[nodiscard]] std::optional<int> layer_with_shared_keys(const ModelConfig& config, int index);

/// The sizes of the per-layer inputs and the activation of their gate, if the model has some.
[[nodiscard]] std::optional<PerLayerInputsSpec> per_layer_inputs_of(const ModelConfig& config, kernels::Activation activation);

/// Checks the sizes of full layers, of per-layer inputs and of shared keys against the others. Throws Error(model) naming the member, its
/// value and what is expected.
void check_layer_sizes(const ModelConfig& config);

}  // namespace millrace::layers
