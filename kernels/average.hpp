#pragma once

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// average += share · (x − average): an exponential moving average with decay 1 − share, as torch.optim.swa_utils computes it. f32 of one
/// shape. Elements are independent of each other.
void move_average(const ExecutionContext& context, float share, const Tensor& x, const Tensor& average);

/// Exchanges the elements of two f32 tensors of one shape.
void exchange(const ExecutionContext& context, const Tensor& a, const Tensor& b);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(move_average)> move_average("move_average");
inline constinit Kernel<decltype(exchange)> exchange("exchange");
}  // namespace table

}  // namespace millrace::kernels
