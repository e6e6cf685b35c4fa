#include "kernels/layer_norm.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {
namespace {

// Checks x, the tensors of its shape and dtype, and the two statistics per row.
void check(const char* component, const Tensor& x, const Tensor& m, const Tensor& r) {
  check_rank(component, "x", x, 2);
  check_operand(component, "x", x, x.shape, {DType::f32, DType::bf16});
  check_operand(component, "m", m, {x.shape[0]}, {DType::f32});
  check_operand(component, "r", r, {x.shape[0]}, {DType::f32});
}
void check_weights(const char* component, const char* name, const Tensor& x, const Tensor& w) {
  check_operand(component, name, w, {x.shape[1]}, {DType::f32});
}

}  // namespace

void layer_norm_forward(const ExecutionContext& context, const Tensor& x, const Tensor& w, const Tensor& b, LayerNormOptions options,
                        const Tensor& y, const Tensor& m, const Tensor& r) {
  constexpr const char* component = "kernels.layer_norm_forward";
  check(component, x, m, r);
  check_weights(component, "w", x, w);
  check_weights(component, "b", x, b);
  check_operand(component, "y", y, x.shape, {x.dtype});
  table::layer_norm_forward(context, x, w, b, options, y, m, r);
}

void layer_norm_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& m,
                               const Tensor& r, LayerNormOptions options, const Tensor& dx) {
  constexpr const char* component = "kernels.layer_norm_input_gradient";
  check(component, x, m, r);
  check_weights(component, "w", x, w);
  check_operand(component, "dy", dy, x.shape, {x.dtype});
  check_operand(component, "dx", dx, x.shape, {x.dtype});
  table::layer_norm_input_gradient(context, dy, x, w, m, r, options, dx);
}

void layer_norm_weight_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& m, const Tensor& r,
                                const Tensor& dw, const Tensor& db) {
  constexpr const char* component = "kernels.layer_norm_weight_gradient";
  check(component, x, m, r);
  check_weights(component, "dw", x, dw);
  check_weights(component, "db", x, db);
  check_operand(component, "dy", dy, x.shape, {x.dtype});
  table::layer_norm_weight_gradient(context, dy, x, m, r, dw, db);
}

}  // namespace millrace::kernels
