#pragma once

#include "layers/decoders/decoder.hpp"

namespace millrace::layers {

/// Gemma (arXiv 2403.08295): Llama with embeddings scaled by √hidden_size, GELU for SiLU, and norm weights stored as their distance from 1.
[[nodiscard]] const Decoder& gemma();

}  // namespace millrace::layers
