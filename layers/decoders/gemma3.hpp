#pragma once

#include "layers/decoders/decoder.hpp"

namespace millrace::layers {

/// Gemma 3, text (arXiv 2503.19786): Gemma 2 with queries and keys normed in place of the soft caps, five sliding layers to a full one, and
/// a rotation of its own for each kind.
[[nodiscard]] const Decoder& gemma3();

}  // namespace millrace::layers
