#pragma once

#include <array>
#include <cstddef>
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
///   sqrtsoftplus  √(log(1 + eˣ)), whose logarithm is x above 20
/// Two have numbers that are learned (activation_parameters):
///   prelu       x above 0, a·x below (He et al., arXiv 1502.01852)
///   xielu       p·x² + ½·x above 0, n·(e^min(x, ε) − 1 − x) + ½·x below, with p = log(1 + eᵅ), n = ½ + log(1 + eᵝ) of the learned α
///               and β and ε = −1e-6 (Huang & Schlag, arXiv 2411.13010). As in transformers' XIELUActivation, whose numbers are bf16
///               in a model of any dtype, α, β, both logarithms, n and ε are rounded to bf16; gradients pass through the rounding
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
  laplace,
  sqrtsoftplus,
  prelu,
  xielu
};

inline constexpr std::array all_activations = {
    Activation::silu,      Activation::gelu,  Activation::relu,       Activation::gelu_erf,     Activation::gelu_10, Activation::quick_gelu,
    Activation::relu2,     Activation::relu6, Activation::leaky_relu, Activation::sigmoid,      Activation::tanh,    Activation::linear,
    Activation::hardswish, Activation::mish,  Activation::laplace,    Activation::sqrtsoftplus, Activation::prelu,   Activation::xielu};

/// How many numbers of an activation are learned: a of prelu; alpha_p and alpha_n of xielu (α and β above).
[[nodiscard]] constexpr std::size_t activation_parameters(Activation activation) noexcept {
  if (activation == Activation::prelu) return 1;
  return activation == Activation::xielu ? 2 : 0;
}
inline constexpr std::size_t max_activation_parameters = 2;
inline constexpr float xielu_beta = 0.5F;
inline constexpr float xielu_epsilon = -9.98377799987793e-07F;  // −1e-6 in bf16

[[nodiscard]] constexpr const char* to_string(Activation activation) noexcept {
  constexpr std::array names = {"silu",    "gelu", "relu",   "gelu_erf",  "gelu_10", "quick_gelu", "relu2",        "relu6", "leaky_relu",
                                "sigmoid", "tanh", "linear", "hardswish", "mish",    "laplace",    "sqrtsoftplus", "prelu", "xielu"};
  static_assert(names.size() == all_activations.size());
  return names[static_cast<std::size_t>(activation)];
}

}  // namespace millrace::kernels
