#pragma once

#include <cstdint>
#include <span>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// Runtime scalars of one update (spec: Loshchilov & Hutter, arXiv 1711.05101, in PyTorch's order of operations).
struct AdamwScalars {
  double learning_rate = 0;  // doubles, as in PyTorch: 1 − β and the bias corrections are formed in double, then rounded once
  double beta1 = 0.9, beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0;   // 0 where the decay rule spares the tensor
  float gradient_scale = 1;  // from clipping
  std::int64_t update = 1;   // t, from 1
};

/// p ← p·(1 − lr·decay);  g ← gradient·gradient_scale;  m ← β1 m + (1−β1) g;  v ← β2 v + (1−β2) g²;
/// p ← p − (lr/(1−β1ᵗ)) · m / (√v/√(1−β2ᵗ) + ε). All f32, one shape. Where `copy` is given (bf16), it gets the rounded p. The gradient is
/// set to zero.
void adamw(const ExecutionContext& context, const AdamwScalars& scalars, const Tensor& p, const Tensor& m, const Tensor& v,
           const Tensor& gradient, const Tensor& copy);

/// What an update works on.
struct AdamwTensors {
  Tensor p, m, v, gradient, copy;
  bool decays = true;  // else the scalars' weight_decay counts as 0
};
/// The same for many tensors, one after the other. On a GPU few launches do for all.
void adamw(const ExecutionContext& context, const AdamwScalars& scalars, std::span<const AdamwTensors> tensors);

/// What the backends implement of the above (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<void(const ExecutionContext&, const AdamwScalars&, std::span<const AdamwTensors>)> adamw("adamw");
}  // namespace table

}  // namespace millrace::kernels
