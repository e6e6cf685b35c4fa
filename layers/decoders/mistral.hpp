#pragma once

#include "layers/decoders/decoder.hpp"

namespace millrace::layers {

/// Mistral (Jiang et al., arXiv 2310.06825): Llama whose layers may all have a sliding window.
[[nodiscard]] const Decoder& mistral();

}  // namespace millrace::layers
