#pragma once

#include "layers/decoders/decoder.hpp"

namespace millrace::layers {

/// MaxText's block "default": u = RMSNorm(x), y = x + (MLP(u) + attention(u)); one norm feeds both branches.
[[nodiscard]] const Decoder& default_block();

}  // namespace millrace::layers
