#pragma once

#include "layers/decoders/decoder.hpp"

namespace millrace::layers {

/// MaxText's block "simple_mlp": y = (x·ff_1)·ff_2, for tests of pipelines.
[[nodiscard]] const Decoder& simple_mlp();

}  // namespace millrace::layers
