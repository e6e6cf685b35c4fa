#include "kernels/bias.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {
namespace {

void check(const char* who, const char* name, const Tensor& x, const Tensor& b) {
  check_rank(who, name, x, 2);
  check_operand(who, name, x, x.shape, {DType::f32, DType::bf16});
  check_operand(who, "b", b, {x.shape[1]}, {DType::f32});
}

}  // namespace

void bias_forward(const ExecutionContext& context, const Tensor& x, const Tensor& b, const Tensor& y) {
  constexpr const char* who = "kernels.bias_forward";
  check(who, "x", x, b);
  check_operand(who, "y", y, x.shape, {x.dtype});
  table::bias_forward(context, x, b, y);
}

void bias_weight_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& db) {
  constexpr const char* who = "kernels.bias_weight_gradient";
  check(who, "dy", dy, db);
  table::bias_weight_gradient(context, dy, db);
}

}  // namespace millrace::kernels
