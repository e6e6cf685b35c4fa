#pragma once

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// The number of places where x and y are equal, of those whose target is not negative: x, y, targets i32 [T] → count f64 [1]. Exact, so
/// the bits do not depend on the order.
void count_matches(const ExecutionContext& context, const Tensor& x, const Tensor& y, const Tensor& targets, const Tensor& count);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(count_matches)> count_matches("count_matches");
}  // namespace table

}  // namespace millrace::kernels
