#pragma once

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// y = x · s, elementwise, with learned numbers s: one for all elements, scales f32 [1]; or with `which` i32 [T, N] one of several for
/// each, y[i] = x[i] · scales[which[i]], scales f32 [E] (a number for each expert). x, y [T, N] of one dtype (may be the same memory).
/// Products are in fp32 and rounded once. Does not depend on the thread count. Throws Error(internal) for an entry of `which` outside [0,
/// E), naming it and its position; a device reports it when its work is done, and takes the first number.
void learned_scale(const ExecutionContext& context, const Tensor& x, const Tensor& scales, const Tensor* which, const Tensor& y);

/// d_scales f32 [E] += Σ dy·x over the elements that the number multiplies, in double: in the order of elements, or for one number over
/// chunks of 4096 elements that are added in order (on a GPU, parts of a fixed size). What a layer's number is multiplied with often goes
/// through a norm, so that the sum is next to 0 while its terms are not: fp32 would leave nothing of it. Does not depend on the thread
/// count.
void learned_scale_weight_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor* which,
                                   const Tensor& d_scales);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(learned_scale)> learned_scale("learned_scale");
inline constinit Kernel<decltype(learned_scale_weight_gradient)> learned_scale_weight_gradient("learned_scale_weight_gradient");
}  // namespace table

}  // namespace millrace::kernels
