#pragma once

#include "layers/decoders/decoder.hpp"

namespace millrace::layers {

/// Qwen 3, dense (arXiv 2505.09388): Llama with each head's queries and keys normed before the rotation.
[[nodiscard]] const Decoder& qwen3();

}  // namespace millrace::layers
