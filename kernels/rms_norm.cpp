#include "kernels/rms_norm.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {
namespace {

// Checks x and tensors of its shape and dtype; the weights; tensors with one number per row.
void check(const char* who, const Tensor& x) {
  check_rank(who, "x", x, 2);
  check_operand(who, "x", x, x.shape, {DType::f32, DType::bf16});
}
void check_weights(const char* who, const char* name, const Tensor& x, const Tensor& w) {
  check_operand(who, name, w, {x.shape[1]}, {DType::f32});
}
void check_rows(const char* who, const Tensor& x, const Tensor& r) { check_operand(who, "r", r, {x.shape[0]}, {DType::f32}); }

}  // namespace

void rms_norm_forward(const ExecutionContext& context, const Tensor& x, const Tensor& w, RmsNormOptions options, const Tensor& y,
                      const Tensor& r) {
  constexpr const char* who = "kernels.rms_norm_forward";
  check(who, x);
  check_weights(who, "w", x, w);
  check_rows(who, x, r);
  check_operand(who, "y", y, x.shape, {x.dtype});
  table::rms_norm_forward(context, x, w, options, y, r);
}

void rms_norm_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& r,
                             RmsNormOptions options, const Tensor& dx, const Tensor* addend) {
  constexpr const char* who = "kernels.rms_norm_input_gradient";
  check(who, x);
  check_weights(who, "w", x, w);
  check_rows(who, x, r);
  check_operand(who, "dy", dy, x.shape, {x.dtype});
  check_operand(who, "dx", dx, x.shape, {x.dtype});
  if (addend != nullptr) check_operand(who, "addend", *addend, x.shape, {x.dtype});
  table::rms_norm_input_gradient(context, dy, x, w, r, options, dx, addend);
}

void rms_norm_weight_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& r, const Tensor& dw) {
  constexpr const char* who = "kernels.rms_norm_weight_gradient";
  check(who, x);
  check_weights(who, "dw", x, dw);
  check_rows(who, x, r);
  check_operand(who, "dy", dy, x.shape, {x.dtype});
  table::rms_norm_weight_gradient(context, dy, x, r, dw);
}

}  // namespace millrace::kernels
