#include "kernels/router_z_loss.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {

void router_z_loss(const ExecutionContext& context, const Tensor& logits, const Tensor& loss) {
  constexpr const char* component = "kernels.router_z_loss";
  check_rank(component, "logits", logits, 2);
  check_operand(component, "logits", logits, logits.shape, {DType::f32, DType::bf16});
  check_operand(component, "loss", loss, {1}, {DType::f64});
  table::router_z_loss(context, logits, loss);
}

void router_z_loss_input_gradient(const ExecutionContext& context, const Tensor& logits, const Tensor& scale, const Tensor& d_logits) {
  constexpr const char* component = "kernels.router_z_loss_input_gradient";
  check_rank(component, "logits", logits, 2);
  check_operand(component, "logits", logits, logits.shape, {DType::f32, DType::bf16});
  check_operand(component, "scale", scale, {1}, {DType::f32});
  check_operand(component, "d_logits", d_logits, logits.shape, {logits.dtype});
  table::router_z_loss_input_gradient(context, logits, scale, d_logits);
}

}  // namespace millrace::kernels
