#pragma once

#include "layers/decoders/decoder.hpp"

namespace millrace::layers {

/// GPT-2 (Radford et al., 2019), as transformers' GPT2LMHeadModel computes it: learned positions, LayerNorm, one projection to queries,
/// keys and values, GELU, biases everywhere:
///   x ← x + attention(norm(x));   x ← x + mlp(norm(x));   head(norm(x)).
/// Matrices stand with their inputs first, as the checkpoint has them.
[[nodiscard]] const Decoder& gpt2();

}  // namespace millrace::layers
