#pragma once

#include <span>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/optimizer_tensors.hpp"

namespace millrace::kernels {

/// Runtime scalars of one update, with the meaning that they have in torch.optim.SGD (dampening 0).
struct SgdScalars {
  double learning_rate = 0;
  double momentum = 0;  // μ; 0: the tensors have no state
  bool nesterov = false;
  double weight_decay = 0;   // coupled: a part of the gradient
  float gradient_scale = 1;  // from clipping
};

/// For each tensor, with its state b where μ > 0:
///   g ← gradient·gradient_scale + decay·p;  b ← μ b + g;  d = g + μ b with Nesterov's momentum (Sutskever et al. 2013), else b;
///   p ← p − lr·d.
/// Without momentum d = g. PyTorch sets b = g in the first update, which is the same as starting from b = 0. Throws Error(internal)
/// for tensors that do not fit.
void sgd(const ExecutionContext& context, const SgdScalars& scalars, std::span<const OptimizerTensors> tensors);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<void(const ExecutionContext&, const SgdScalars&, std::span<const OptimizerTensors>)> sgd("sgd");
}  // namespace table

}  // namespace millrace::kernels
