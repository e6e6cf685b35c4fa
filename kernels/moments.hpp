#pragma once

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// Sums from which mean, standard deviation and the fraction of zeros follow: x f32 or bf16 [T, D] → sums f64 [4]: the number of elements,
/// the number of those that are exactly 0, Σ x and Σ x². Computed in f64; the order of a sum depends on T and D alone. Not finite if an
/// element is not.
void moments(const ExecutionContext& context, const Tensor& x, const Tensor& sums);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(moments)> moments("moments");
}  // namespace table

}  // namespace millrace::kernels
