#pragma once

#include <cstdint>

namespace millrace::kernels {

/// silu(x) = x·σ(x). gelu(x) = ½·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))): the tanh form, `gelu_new` and `gelu_pytorch_tanh` of config.json
/// (Hendrycks & Gimpel, arXiv 1606.08415). relu(x) = max(x, 0), with slope 0 at 0.
enum class Activation : std::uint8_t { silu, gelu, relu };

[[nodiscard]] constexpr const char* to_string(Activation activation) noexcept {
  switch (activation) {
    case Activation::silu:
      return "silu";
    case Activation::gelu:
      return "gelu";
    case Activation::relu:
      return "relu";
  }
  return "?";
}

}  // namespace millrace::kernels
