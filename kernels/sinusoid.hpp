#pragma once

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// Sinusoidal positions (Vaswani et al., arXiv 1706.03762, section 3.5), sines first: y[t] = x[t] + [sin φ | cos φ] with φ[i] =
/// positions[t]·inverse_timescales[i] in fp32. x, y [T, D] of one dtype (may be the same memory), rounded once; positions i32
/// [T]; inverse_timescales f32 [D/2]. Throws Error(config) if D is odd. Does not depend on the thread count.
void add_sinusoid(const ExecutionContext& context, const Tensor& x, const Tensor& positions, const Tensor& inverse_timescales,
                  const Tensor& y);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(add_sinusoid)> add_sinusoid("add_sinusoid");
}  // namespace table

}  // namespace millrace::kernels
