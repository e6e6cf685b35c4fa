#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/optimizer_tensors.hpp"

namespace millrace::kernels {

/// Whose form of Muon: that of torch.optim.Muon, or that of optax.contrib.muon, which MaxText uses.
enum class MuonForm : std::uint8_t { torch, optax };

/// Runtime scalars of one update by Muon (Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024).
struct MuonScalars {
  MuonForm form = MuonForm::torch;
  double learning_rate = 0;
  double beta = 0.95;         // of the momentum, which is Nesterov's
  double epsilon = 1e-7;      // for the Frobenius norm
  double consistent_rms = 0;  // 0: steps are scaled by √max(1, outputs/inputs); else by this times √max(inputs, outputs)
  double weight_decay = 0;
  float gradient_scale = 1;  // from clipping
  std::int64_t update = 1;   // t, from 1
};

/// For each matrix of each tensor, with its state m, the momentum:
///   g ← gradient·gradient_scale;  m ← β m + (1−β) g;
///   torch: x ← β m + (1−β) g, x ← x / max(‖x‖, ε);  optax: x ← β m/(1−βᵗ⁺¹) + (1−β) g/(1−βᵗ), x ← x / (‖x‖ + ε);
///   five times, with the Gram matrix a of the smaller side, x xᵀ or xᵀ x:  x ← (3.4445 I − 4.7750 a + 2.0315 a²) x, or from the right;
///   p ← p·(1 − lr·decay) − lr·s·x, with s = √max(1, outputs/inputs), or consistent_rms·√max(inputs, outputs) (Liu et al., "Muon is
///   scalable for LLM training", arXiv 2502.16982, section 2.2).
/// The norm is that of one matrix, Frobenius's. Everything is in fp32, but m may be bf16: x is computed from it before it is rounded. The
/// gradient's memory holds x meanwhile. The bits depend only on the matrices' shapes and the context's thread count. `scratch` has at least
/// muon_scratch_bytes for the forms of all tensors. Throws Error(internal) for tensors that do not fit.
void muon(const ExecutionContext& context, const MuonScalars& scalars, std::span<const OptimizerTensors> tensors, Scratch scratch);

/// Scratch for tensors of this form.
[[nodiscard]] std::size_t muon_scratch_bytes(const MatrixForm& form, const Processor& processor);

/// The number of iterations, and of matrix products in one update of a matrix.
inline constexpr int newton_schulz_iterations = 5;
inline constexpr int muon_products = 3 * newton_schulz_iterations;

/// Shares of momentum and gradient in the step's direction, and what the momentum keeps.
struct MuonMomentum {
  float beta, rest;  // β, 1 − β
  float momentum_share, gradient_share;
  float gradient_scale;
};
struct MuonNorm {
  float epsilon;
  bool added;  // x / (‖x‖ + ε), else x / max(‖x‖, ε)
};
/// What x is divided by, from the sum of its squares.
[[nodiscard]] inline float muon_divisor(const MuonNorm& rule, double square) {
  const auto norm = static_cast<float>(std::sqrt(square));
  return rule.added ? norm + rule.epsilon : std::max(norm, rule.epsilon);
}
/// value = a I + b·gram + c·value: the polynomial of the iteration, where `value` was gram².
struct MuonPolynomial {
  float a, b, c;
};
struct MuonStep {
  float keep;  // 1 − lr·decay
  float rate;  // lr·s
};

/// The kernels that backends implement (kernels/base/kernel_table.hpp). Matrices are f32 [rows, columns].
namespace table {
/// m and, in the gradient's place, x.
inline constinit Kernel<void(const ExecutionContext&, const MuonMomentum&, const Tensor& gradient, const Tensor& momentum)> muon_momentum(
    "muon_momentum");
/// x / its norm, whose square is the f64 `square`, read when the kernel runs.
inline constinit Kernel<void(const ExecutionContext&, const MuonNorm&, const Tensor& square, const Tensor& x)> muon_normalize(
    "muon_normalize");
inline constinit Kernel<void(const ExecutionContext&, const MuonPolynomial&, const Tensor& gram, const Tensor& value)> muon_polynomial(
    "muon_polynomial");
/// The parameter and its copy, which may be empty, after the step along x; zeroes the gradient, which is not x.
inline constinit Kernel<void(const ExecutionContext&, const MuonStep&, const Tensor& x, const Tensor& parameter, const Tensor& gradient,
                             const Tensor& copy)>
    muon_step("muon_step");
}  // namespace table

}  // namespace millrace::kernels
