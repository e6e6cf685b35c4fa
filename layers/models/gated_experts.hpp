#pragma once

#include "layers/layer_spec.hpp"
#include "layers/moe/mixture_of_experts.hpp"

namespace millrace::layers {

/// Qwen3-Next's mixture of experts, which Qwen 3.5 also has: Qwen 3's, and an expert that every token has and whose result is multiplied by
/// the sigmoid of a learned product.
[[nodiscard]] ExpertsSpec gated_experts(const ModelConfig& config, kernels::Activation activation);

/// Its names in files.
[[nodiscard]] ExpertNames gated_expert_names(ExpertStorage storage);

}  // namespace millrace::layers
