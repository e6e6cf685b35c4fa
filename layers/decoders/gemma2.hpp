#pragma once

#include "layers/decoders/decoder.hpp"

namespace millrace::layers {

/// Gemma 2 (arXiv 2408.00118): Gemma with norms before and after each branch, every other layer with a sliding window, and soft caps on
/// scores and logits:
///   x ← x + norm(attention(norm(x)));   x ← x + norm(mlp(norm(x))).
[[nodiscard]] const Decoder& gemma2();

}  // namespace millrace::layers
