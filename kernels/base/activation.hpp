#pragma once

#include <array>
#include <cstdint>

namespace millrace::kernels {

/// The functions that config.json calls hidden_act, as transformers' ACT2FN computes them; slopes at a kink are those of torch.
///   silu        x·σ(x)
///   gelu        ½·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))): the tanh form (Hendrycks & Gimpel, arXiv 1606.08415)
///   relu        max(x, 0)
///   gelu_erf    x·Φ(x), Φ(x) = ½·(1 + erf(x/√2)): the exact form
///   gelu_10     gelu_erf, cut at −10 and 10
///   quick_gelu  x·σ(1.702·x)
///   relu2       max(x, 0)² (So et al., arXiv 2109.08668)
///   relu6       min(max(x, 0), 6)
///   leaky_relu  x above 0, 0.01·x below
///   sigmoid     σ(x) = 1 / (1 + e⁻ˣ)
///   tanh        tanh(x)
///   linear      x
///   hardswish   x·min(max(x + 3, 0), 6)/6 (Howard et al., arXiv 1905.02244)
///   mish        x·tanh(log(1 + eˣ)) (Misra, arXiv 1908.08681)
///   laplace     ½·(1 + erf((x − µ) / (σ·√2))) with µ = √½ and σ = √(¼/π) (Ma et al., arXiv 2209.10655)
enum class Activation : std::uint8_t {
  silu,
  gelu,
  relu,
  gelu_erf,
  gelu_10,
  quick_gelu,
  relu2,
  relu6,
  leaky_relu,
  sigmoid,
  tanh,
  linear,
  hardswish,
  mish,
  laplace
};

inline constexpr std::array all_activations = {Activation::silu,       Activation::gelu,       Activation::relu,   Activation::gelu_erf,
                                               Activation::gelu_10,    Activation::quick_gelu, Activation::relu2,  Activation::relu6,
                                               Activation::leaky_relu, Activation::sigmoid,    Activation::tanh,   Activation::linear,
                                               Activation::hardswish,  Activation::mish,       Activation::laplace};

[[nodiscard]] constexpr const char* to_string(Activation activation) noexcept {
  constexpr std::array names = {"silu",       "gelu",    "relu", "gelu_erf", "gelu_10",   "quick_gelu", "relu2",  "relu6",
                                "leaky_relu", "sigmoid", "tanh", "linear",   "hardswish", "mish",       "laplace"};
  static_assert(names.size() == all_activations.size());
  return names[static_cast<std::size_t>(activation)];
}

}  // namespace millrace::kernels
