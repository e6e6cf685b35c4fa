#include "kernels/elementwise.hpp"

#include "kernels/base/operands.hpp"
#include "kernels/cpu/elementwise.hpp"
#include "kernels/cuda/operations.hpp"
#include "kernels/reference/elementwise.hpp"

namespace millrace::kernels {

void add(const Stream& stream, const Tensor& a, const Tensor& b, const Tensor& y) {
  constexpr const char* who = "kernels.add";
  check_operand(who, "a", a, a.shape, {DType::f32, DType::bf16});
  check_operand(who, "b", b, a.shape, {a.dtype});
  check_operand(who, "y", y, a.shape, {a.dtype});
  if (stream.on_cuda()) return cuda::add(stream, a, b, y);
  if (stream.implementation() == Implementation::reference) return reference::add(a, b, y);
  cpu::add(stream, a, b, y);
}

void scale(const Stream& stream, const Tensor& x, float factor, const Tensor& y) {
  constexpr const char* who = "kernels.scale";
  check_operand(who, "x", x, x.shape, {DType::f32, DType::bf16});
  check_operand(who, "y", y, x.shape, {x.dtype});
  if (stream.on_cuda()) return cuda::scale(stream, x, factor, y);
  if (stream.implementation() == Implementation::reference) return reference::scale(x, factor, y);
  cpu::scale(stream, x, factor, y);
}

void accumulate(const Stream& stream, const Tensor& x, const Tensor& accumulator) {
  constexpr const char* who = "kernels.accumulate";
  check_operand(who, "x", x, x.shape, {DType::f32, DType::bf16});
  check_operand(who, "accumulator", accumulator, x.shape, {DType::f32});
  if (stream.on_cuda()) return cuda::accumulate(stream, x, accumulator);
  if (stream.implementation() == Implementation::reference) return reference::accumulate(x, accumulator);
  cpu::accumulate(stream, x, accumulator);
}

void convert(const Stream& stream, const Tensor& x, const Tensor& y) {
  constexpr const char* who = "kernels.convert";
  if (x.dtype == y.dtype) {
    check_operand(who, "x", x, x.shape, {x.dtype});
    check_operand(who, "y", y, x.shape, {x.dtype});
  } else {
    check_operand(who, "x", x, x.shape, {DType::f32, DType::bf16});
    check_operand(who, "y", y, x.shape, {DType::f32, DType::bf16});
  }
  if (stream.on_cuda()) return cuda::convert(stream, x, y);
  if (stream.implementation() == Implementation::reference) return reference::convert(x, y);
  cpu::convert(stream, x, y);
}

void fill_zero(const Stream& stream, const Tensor& y) {
  constexpr const char* who = "kernels.fill_zero";
  check_operand(who, "y", y, y.shape, {y.dtype});
  if (stream.on_cuda()) return cuda::fill_zero(stream, y);
  if (stream.implementation() == Implementation::reference) return reference::fill_zero(y);
  cpu::fill_zero(stream, y);
}

}  // namespace millrace::kernels
