#pragma once

#include "layers/decoders/decoder.hpp"

namespace millrace::layers {

/// Qwen 2 and 2.5 (arXiv 2407.10671; arXiv 2412.15115): Llama with biases on queries, keys and values.
[[nodiscard]] const Decoder& qwen2();

}  // namespace millrace::layers
