#pragma once

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/options.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// y = a + b in fp32, rounded to y's dtype. One dtype; y may be a or b.
void add(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& y);

struct ScaleOptions {
  float factor = 1.0F;

  static constexpr auto members() { return std::tuple(member("factor", &ScaleOptions::factor)); }
};
/// y = x · factor in fp32, rounded to y's dtype. One dtype; y may be x.
void scale(const ExecutionContext& context, const Tensor& x, ScaleOptions options, const Tensor& y);

/// accumulator += x, accumulator f32, x f32 or bf16.
void accumulate(const ExecutionContext& context, const Tensor& x, const Tensor& accumulator);

/// y = x with the dtype changed (f32 to bf16 rounds to nearest even), or copied.
void convert(const ExecutionContext& context, const Tensor& x, const Tensor& y);

/// y = 0.
void fill_zero(const ExecutionContext& context, const Tensor& y);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(add)> add("add");
inline constinit Kernel<decltype(scale)> scale("scale");
inline constinit Kernel<decltype(accumulate)> accumulate("accumulate");
inline constinit Kernel<decltype(convert)> convert("convert");
inline constinit Kernel<decltype(fill_zero)> fill_zero("fill_zero");
}  // namespace table

}  // namespace millrace::kernels
