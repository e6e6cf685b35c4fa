#pragma once

#include <cstdint>
#include <span>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/optimizer_tensors.hpp"

namespace millrace::kernels {

/// Runtime scalars of one update (Loshchilov & Hutter, arXiv 1711.05101, in PyTorch's order of operations).
struct AdamwScalars {
  double learning_rate = 0;  // doubles, as in PyTorch: 1 − β and the bias corrections are formed in double, then rounded once
  double beta1 = 0.9, beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0;
  float gradient_scale = 1;  // from clipping
  std::int64_t update = 1;   // t, from 1
  bool nesterov = false;     // Nesterov's momentum in the form of optax.nadamw, which MaxText uses beside Muon
};

/// For each tensor, with its states m and v:
///   p ← p·(1 − lr·decay);  g ← gradient·gradient_scale;  m ← β1 m + (1−β1) g;  v ← β2 v + (1−β2) g²;
///   p ← p − (lr/(1−β1ᵗ)) · m / (√v/√(1−β2ᵗ) + ε).
/// With `nesterov` m / (1−β1ᵗ) is replaced by β1·m / (1−β1ᵗ⁺¹) + (1−β1)·g / (1−β1ᵗ) (Dozat, "Incorporating Nesterov momentum into Adam").
/// m may be bf16: the update uses it before it is rounded (MaxText's mu_dtype). On a GPU a few launches update many tensors. Throws
/// Error(internal) for tensors that do not fit.
void adamw(const ExecutionContext& context, const AdamwScalars& scalars, std::span<const OptimizerTensors> tensors);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<void(const ExecutionContext&, const AdamwScalars&, std::span<const OptimizerTensors>)> adamw("adamw");
}  // namespace table

}  // namespace millrace::kernels
