#pragma once

#include "layers/decoders/decoder.hpp"

namespace millrace::layers {

/// MaxText's Llama 2 and 3: the arithmetic of Llama with 1/√head_dim in the query kernels.
[[nodiscard]] const Decoder& llama2();

}  // namespace millrace::layers
