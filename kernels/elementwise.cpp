#include "kernels/elementwise.hpp"

#include "kernels/base/operands.hpp"
#include "kernels/cpu/elementwise.hpp"
#include "kernels/cuda/operations.hpp"
#include "kernels/reference/elementwise.hpp"

namespace millrace::kernels {

void add(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& y) {
  constexpr const char* who = "kernels.add";
  check_operand(who, "a", a, a.shape, {DType::f32, DType::bf16});
  check_operand(who, "b", b, a.shape, {a.dtype});
  check_operand(who, "y", y, a.shape, {a.dtype});
  if (context.on_cuda()) return cuda::add(context, a, b, y);
  if (context.implementation() == Implementation::reference) return reference::add(a, b, y);
  cpu::add(context, a, b, y);
}

void scale(const ExecutionContext& context, const Tensor& x, float factor, const Tensor& y) {
  constexpr const char* who = "kernels.scale";
  check_operand(who, "x", x, x.shape, {DType::f32, DType::bf16});
  check_operand(who, "y", y, x.shape, {x.dtype});
  if (context.on_cuda()) return cuda::scale(context, x, factor, y);
  if (context.implementation() == Implementation::reference) return reference::scale(x, factor, y);
  cpu::scale(context, x, factor, y);
}

void accumulate(const ExecutionContext& context, const Tensor& x, const Tensor& accumulator) {
  constexpr const char* who = "kernels.accumulate";
  check_operand(who, "x", x, x.shape, {DType::f32, DType::bf16});
  check_operand(who, "accumulator", accumulator, x.shape, {DType::f32});
  if (context.on_cuda()) return cuda::accumulate(context, x, accumulator);
  if (context.implementation() == Implementation::reference) return reference::accumulate(x, accumulator);
  cpu::accumulate(context, x, accumulator);
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
  if (context.on_cuda()) return cuda::convert(context, x, y);
  if (context.implementation() == Implementation::reference) return reference::convert(x, y);
  cpu::convert(context, x, y);
}

void fill_zero(const ExecutionContext& context, const Tensor& y) {
  constexpr const char* who = "kernels.fill_zero";
  check_operand(who, "y", y, y.shape, {y.dtype});
  if (context.on_cuda()) return cuda::fill_zero(context, y);
  if (context.implementation() == Implementation::reference) return reference::fill_zero(y);
  cpu::fill_zero(context, y);
}

}  // namespace millrace::kernels
