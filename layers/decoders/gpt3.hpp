#pragma once

#include "layers/decoders/decoder.hpp"

namespace millrace::layers {

/// MaxText's GPT-3: LayerNorms whose scale is stored less 1, learned positions, biased projections, an MLP with its own norm.
[[nodiscard]] const Decoder& gpt3();

}  // namespace millrace::layers
