#pragma once

#include <cstdint>
#include <vector>

#include "layers/model_config.hpp"

namespace millrace::layers {

/// Inverse frequencies of the rotary embedding, fp32, one per rotated pair of a head, in transformers' order of fp32 operations, so that
/// angles agree to the last bit: θ^(−2i/dim). dim is int(head_dim · proportion), transformers' partial_rotary_factor: the frequencies are
/// spread over the dim features that are rotated, then scaled. For an odd dim one more feature is rotated, as in transformers.
///   linear        divided by the factor
///   llama3        long wavelengths divided by the factor, short ones kept, a ramp between (`_compute_llama3_parameters`)
///   yarn          the same by the index (Peng et al., arXiv 2309.00071; `_compute_yarn_parameters`)
///   proportional  divided by the factor for the first pairs, 0 for the rest (Gemma 4's full layers); here dim is head_dim, and
///                 proportion is the fraction of the pairs that is rotated
///   dynamic       θ grows with the length of a row beyond the old context, so that the longest wave stretches by factor·length/old −
///                 (factor − 1) (`_compute_dynamic_ntk_parameters`)
///   longrope      divided by a factor per pair: short_factors for rows up to the old context, long_factors for longer ones (Ding et al.,
///                 arXiv 2402.13753; `_compute_longrope_parameters`)
/// `sequence`: tokens of a row, which the last two depend on. transformers takes the largest position of a batch and one more in its place,
/// which is the same for rows of one document.
/// Throws Error(model) for an odd head_dim, a proportion that leaves no pair, invalid bounds of the ramp, lists whose length is not the
/// number of pairs, or yarn over an odd dim, which its ramp does not cover.
[[nodiscard]] std::vector<float> inverse_frequencies(const RopeConfig& rope, std::int64_t head_dim, std::int64_t sequence = 0);

/// The factor of cos and sin: the attention factor of yarn (by default 0.1·ln(factor) + 1) and of longrope (by default
/// √(1 + ln(factor) / ln(old context))), else 1.
[[nodiscard]] float rotary_factor(const RopeConfig& rope);

}  // namespace millrace::layers
