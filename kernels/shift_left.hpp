#pragma once

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/shift_options.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// y[t] = x[t + distance] where may_shift() allows it, else the filling: what comes `distance` tokens later in the same document, as
/// modules that predict further tokens need it (DeepSeek-V3, arXiv 2412.19437, section 2.2). x, segments, y: i32 [T], rows of
/// options.sequence tokens; segments are the numbers of documents, 0 for padding. Throws Error(internal) if the sequence does not divide T
/// or the distance is below 1. The bits do not depend on the thread count.
void shift_left(const ExecutionContext& context, const Tensor& x, const Tensor& segments, ShiftOptions options, const Tensor& y);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(shift_left)> shift_left("shift_left");
}  // namespace table

}  // namespace millrace::kernels
