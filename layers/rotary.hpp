#pragma once

#include <cstdint>
#include <vector>

#include "layers/model_config.hpp"

namespace millrace::layers {

/// Inverse frequencies of the rotary embedding, fp32 [head_dim / 2], in transformers' order of fp32 operations, so that angles agree to the
/// last bit: θ^(−2i/head_dim); linear: divided by the factor; llama3: long wavelengths divided by the factor, short ones kept, a ramp
/// between (transformers `_compute_llama3_parameters`); yarn: the same by the index (Peng et al., arXiv 2309.00071;
/// `_compute_yarn_parameters`); proportional: as they are for the first pairs, 0 for
/// the rest (Gemma 4's full layers). Throws Error(model) for an odd head_dim or factors that make no ramp.
[[nodiscard]] std::vector<float> inverse_frequencies(const RopeConfig& rope, std::int64_t head_dim);

/// What multiplies cos and sin: yarn's attention factor, else 1.
[[nodiscard]] float rotary_factor(const RopeConfig& rope);

}  // namespace millrace::layers
