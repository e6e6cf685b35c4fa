#include "kernels/average.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {

void move_average(const ExecutionContext& context, float share, const Tensor& x, const Tensor& average) {
  constexpr const char* component = "kernels.move_average";
  check_operand(component, "x", x, x.shape, {DType::f32});
  check_operand(component, "average", average, x.shape, {DType::f32});
  table::move_average(context, share, x, average);
}

void exchange(const ExecutionContext& context, const Tensor& a, const Tensor& b) {
  constexpr const char* component = "kernels.exchange";
  check_operand(component, "a", a, a.shape, {DType::f32});
  check_operand(component, "b", b, a.shape, {DType::f32});
  table::exchange(context, a, b);
}

}  // namespace millrace::kernels
