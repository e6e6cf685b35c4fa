#pragma once

#include "layers/decoders/decoder.hpp"

namespace millrace::layers {

/// Llama 2 and 3 (Touvron et al., arXiv 2307.09288; arXiv 2407.21783), as transformers' LlamaForCausalLM computes it:
///   x ← x + attention(norm(x));   x ← x + mlp(norm(x));   head(norm(x)).
[[nodiscard]] const Decoder& llama();

}  // namespace millrace::layers
