#include "kernels/layer_norm.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {
namespace {

// Checks x, tensors of its shape and dtype, and a row's two numbers.
void check(const char* who, const Tensor& x, const Tensor& m, const Tensor& r) {
  check_rank(who, "x", x, 2);
  check_operand(who, "x", x, x.shape, {DType::f32, DType::bf16});
  check_operand(who, "m", m, {x.shape[0]}, {DType::f32});
  check_operand(who, "r", r, {x.shape[0]}, {DType::f32});
}
void check_weights(const char* who, const char* name, const Tensor& x, const Tensor& w) {
  check_operand(who, name, w, {x.shape[1]}, {DType::f32});
}

}  // namespace

void layer_norm_forward(const ExecutionContext& context, const Tensor& x, const Tensor& w, const Tensor& b, LayerNormOptions options,
                        const Tensor& y, const Tensor& m, const Tensor& r) {
  constexpr const char* who = "kernels.layer_norm_forward";
  check(who, x, m, r);
  check_weights(who, "w", x, w);
  check_weights(who, "b", x, b);
  check_operand(who, "y", y, x.shape, {x.dtype});
  table::layer_norm_forward(context, x, w, b, options, y, m, r);
}

void layer_norm_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& m,
                               const Tensor& r, LayerNormOptions options, const Tensor& dx) {
  constexpr const char* who = "kernels.layer_norm_input_gradient";
  check(who, x, m, r);
  check_weights(who, "w", x, w);
  check_operand(who, "dy", dy, x.shape, {x.dtype});
  check_operand(who, "dx", dx, x.shape, {x.dtype});
  table::layer_norm_input_gradient(context, dy, x, w, m, r, options, dx);
}

void layer_norm_weight_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& m, const Tensor& r,
                                const Tensor& dw, const Tensor& db) {
  constexpr const char* who = "kernels.layer_norm_weight_gradient";
  check(who, x, m, r);
  check_weights(who, "dw", x, dw);
  check_weights(who, "db", x, db);
  check_operand(who, "dy", dy, x.shape, {x.dtype});
  table::layer_norm_weight_gradient(context, dy, x, m, r, dw, db);
}

}  // namespace millrace::kernels
