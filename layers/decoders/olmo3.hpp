#pragma once

#include "layers/decoders/decoder.hpp"

namespace millrace::layers {

/// OLMo 3 (Ai2, 2025; the norms as OLMo 2, arXiv 2501.00656): branches read the residual stream as it is, and are normed before they join
/// it; queries and keys are normed over all heads at once; three sliding layers to a full one:
///   x ← x + norm(attention(x));   x ← x + norm(mlp(x)).
[[nodiscard]] const Decoder& olmo3();

}  // namespace millrace::layers
