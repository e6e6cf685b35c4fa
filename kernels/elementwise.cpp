#include "kernels/elementwise.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {

void add(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& y) {
  constexpr const char* component = "kernels.add";
  check_operand(component, "a", a, a.shape, {DType::f32, DType::bf16});
  check_operand(component, "b", b, a.shape, {a.dtype});
  check_operand(component, "y", y, a.shape, {a.dtype});
  table::add(context, a, b, y);
}

void scale(const ExecutionContext& context, const Tensor& x, ScaleOptions options, const Tensor& y) {
  constexpr const char* component = "kernels.scale";
  check_operand(component, "x", x, x.shape, {DType::f32, DType::bf16});
  check_operand(component, "y", y, x.shape, {x.dtype});
  table::scale(context, x, options, y);
}

void accumulate(const ExecutionContext& context, const Tensor& x, const Tensor& accumulator) {
  constexpr const char* component = "kernels.accumulate";
  check_operand(component, "x", x, x.shape, {DType::f32, DType::bf16});
  check_operand(component, "accumulator", accumulator, x.shape, {DType::f32});
  table::accumulate(context, x, accumulator);
}

void convert(const ExecutionContext& context, const Tensor& x, const Tensor& y) {
  constexpr const char* component = "kernels.convert";
  if (x.dtype == y.dtype) {
    check_operand(component, "x", x, x.shape, {x.dtype});
    check_operand(component, "y", y, x.shape, {x.dtype});
  } else {
    check_operand(component, "x", x, x.shape, {DType::f32, DType::bf16});
    check_operand(component, "y", y, x.shape, {DType::f32, DType::bf16});
  }
  table::convert(context, x, y);
}

void fill_zero(const ExecutionContext& context, const Tensor& y) {
  constexpr const char* component = "kernels.fill_zero";
  check_operand(component, "y", y, y.shape, {y.dtype});
  table::fill_zero(context, y);
}

}  // namespace millrace::kernels
