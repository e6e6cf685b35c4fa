#include "kernels/elementwise.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {

void add(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& y) {
  constexpr const char* who = "kernels.add";
  check_operand(who, "a", a, a.shape, {DType::f32, DType::bf16});
  check_operand(who, "b", b, a.shape, {a.dtype});
  check_operand(who, "y", y, a.shape, {a.dtype});
  table::add(context, a, b, y);
}

void scale(const ExecutionContext& context, const Tensor& x, ScaleOptions options, const Tensor& y) {
  constexpr const char* who = "kernels.scale";
  check_operand(who, "x", x, x.shape, {DType::f32, DType::bf16});
  check_operand(who, "y", y, x.shape, {x.dtype});
  table::scale(context, x, options, y);
}

void accumulate(const ExecutionContext& context, const Tensor& x, const Tensor& accumulator) {
  constexpr const char* who = "kernels.accumulate";
  check_operand(who, "x", x, x.shape, {DType::f32, DType::bf16});
  check_operand(who, "accumulator", accumulator, x.shape, {DType::f32});
  table::accumulate(context, x, accumulator);
}

void convert(const ExecutionContext& context, const Tensor& x, const Tensor& y) {
  constexpr const char* who = "kernels.convert";
  if (x.dtype == y.dtype) {
    check_operand(who, "x", x, x.shape, {x.dtype});
    check_operand(who, "y", y, x.shape, {x.dtype});
  } else {
    check_operand(who, "x", x, x.shape, {DType::f32, DType::bf16});
    check_operand(who, "y", y, x.shape, {DType::f32, DType::bf16});
  }
  table::convert(context, x, y);
}

void fill_zero(const ExecutionContext& context, const Tensor& y) {
  constexpr const char* who = "kernels.fill_zero";
  check_operand(who, "y", y, y.shape, {y.dtype});
  table::fill_zero(context, y);
}

}  // namespace millrace::kernels
