#pragma once

#include <optional>
#include <string>

#include "layers/layer_spec.hpp"
#include "layers/model_config.hpp"
#include "layers/parameter.hpp"

namespace millrace::layers {

/// The sizes of a model's linear layers. Throws Error(model), naming the key, if one is missing, too large, or does not fit another.
[[nodiscard]] DeltaNetSpec delta_net_spec(const ModelConfig& config);

/// The initial value of a delta net's vector: A_log is the logarithm of a number between `least` and 16, dt_bias and the scale of the norm
/// are ones. None for a parameter of another kind. `norm`: the end of the scale's name in the family, such as ".linear_attn.norm.weight".
[[nodiscard]] std::optional<Initial> initial_delta_net_parameter(const std::string& name, const std::string& norm, double least);

}  // namespace millrace::layers
