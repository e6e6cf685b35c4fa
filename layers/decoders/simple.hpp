#pragma once

#include "layers/decoders/decoder.hpp"

namespace millrace::layers {

/// MaxText's block "simple": y = x·W, for tests of pipelines.
[[nodiscard]] const Decoder& simple();

}  // namespace millrace::layers
