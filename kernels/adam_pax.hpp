#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/optimizer_tensors.hpp"

namespace millrace::kernels {

/// Runtime scalars of one update.
struct AdamPaxScalars {
  double learning_rate = 0;
  double beta1 = 0.9, beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0;
  float gradient_scale = 1;  // from clipping
  std::int64_t update = 1;   // t, from 1
};

/// d(β) = β (1 − βᵗ⁻¹) / (1 − βᵗ): with this decay rate the stored moment is always bias-corrected. It is 0 in the first update.
[[nodiscard]] inline double adam_pax_decay(double beta, std::int64_t update) {
  const auto t = static_cast<double>(update);
  return beta * (1.0 - std::pow(beta, t - 1.0)) / (1.0 - std::pow(beta, t));
}

/// Adam as Pax and MaxText's adam_pax compute it: the stored moments are bias-corrected. For each tensor, with its states m and v:
///   g ← gradient·gradient_scale;  m ← d(β1) m + (1−d(β1)) g;  v ← d(β2) v + (1−d(β2)) g²;
///   p ← p·(1 − lr·decay) − lr · m / (√v + ε).
/// Throws Error(internal) for tensors that do not fit.
void adam_pax(const ExecutionContext& context, const AdamPaxScalars& scalars, std::span<const OptimizerTensors> tensors);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<void(const ExecutionContext&, const AdamPaxScalars&, std::span<const OptimizerTensors>)> adam_pax("adam_pax");
}  // namespace table

}  // namespace millrace::kernels
