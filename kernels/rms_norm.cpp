#include "kernels/rms_norm.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {
namespace {

// Checks x and the tensors of its shape and dtype, the weights, and the tensors with one number per row.
void check(const char* component, const Tensor& x) {
  check_rank(component, "x", x, 2);
  check_operand(component, "x", x, x.shape, {DType::f32, DType::bf16});
}
void check_weights(const char* component, const char* name, const Tensor& x, const Tensor& w) {
  if (w.shape.rank() != 2) return check_operand(component, name, w, {x.shape[1]}, {DType::f32});
  check_operand(component, name, w, {w.shape[0], x.shape[1]}, {DType::f32});
  MILLRACE_CHECK(w.shape[0] >= 1 && x.shape[0] % w.shape[0] == 0, ExitCode::internal, component,
                 "x {} with {} {}, expected a multiple of {} rows", to_string(x.shape), name, to_string(w.shape), w.shape[0]);
}
void check_rows(const char* component, const Tensor& x, const Tensor& r) { check_operand(component, "r", r, {x.shape[0]}, {DType::f32}); }

}  // namespace

void rms_norm_forward(const ExecutionContext& context, const Tensor& x, const Tensor& w, RmsNormOptions options, const Tensor& y,
                      const Tensor& r) {
  constexpr const char* component = "kernels.rms_norm_forward";
  check(component, x);
  check_weights(component, "w", x, w);
  check_rows(component, x, r);
  check_operand(component, "y", y, x.shape, {x.dtype});
  table::rms_norm_forward(context, x, w, options, y, r);
}

void rms_norm_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& r,
                             RmsNormOptions options, const Tensor& dx, const Tensor* addend) {
  constexpr const char* component = "kernels.rms_norm_input_gradient";
  check(component, x);
  check_weights(component, "w", x, w);
  check_rows(component, x, r);
  check_operand(component, "dy", dy, x.shape, {x.dtype});
  check_operand(component, "dx", dx, x.shape, {x.dtype});
  if (addend != nullptr) check_operand(component, "addend", *addend, x.shape, {x.dtype});
  table::rms_norm_input_gradient(context, dy, x, w, r, options, dx, addend);
}

void rms_norm_weight_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& r, const Tensor& dw) {
  constexpr const char* component = "kernels.rms_norm_weight_gradient";
  check(component, x);
  check_weights(component, "dw", x, dw);
  check_rows(component, x, r);
  check_operand(component, "dy", dy, x.shape, {x.dtype});
  table::rms_norm_weight_gradient(context, dy, x, r, dw);
}

}  // namespace millrace::kernels
