#pragma once

#include <cstdint>

namespace millrace::kernels {

/// silu(x) = x·σ(x). gelu(x) = ½·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))): the tanh form, `gelu_new` and `gelu_pytorch_tanh` of config.json
/// (Hendrycks & Gimpel, arXiv 1606.08415).
enum class Activation : std::uint8_t { silu, gelu };

}  // namespace millrace::kernels
