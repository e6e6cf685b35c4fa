#include "kernels/bias.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {
namespace {

void check(const char* component, const char* name, const Tensor& x, const Tensor& b) {
  check_rank(component, name, x, 2);
  check_operand(component, name, x, x.shape, {DType::f32, DType::bf16});
  check_operand(component, "b", b, {x.shape[1]}, {DType::f32});
}

}  // namespace

void bias_forward(const ExecutionContext& context, const Tensor& x, const Tensor& b, const Tensor& y) {
  constexpr const char* component = "kernels.bias_forward";
  check(component, "x", x, b);
  check_operand(component, "y", y, x.shape, {x.dtype});
  table::bias_forward(context, x, b, y);
}

void bias_weight_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& db) {
  constexpr const char* component = "kernels.bias_weight_gradient";
  check(component, "dy", dy, db);
  table::bias_weight_gradient(context, dy, db);
}

}  // namespace millrace::kernels
