#include "kernels/balance_loss.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {
namespace {

void check_common(const char* component, const Tensor& logits, const Tensor& choices, BalanceLossOptions options) {
  check_rank(component, "logits", logits, 2);
  check_operand(component, "logits", logits, logits.shape, {DType::f32, DType::bf16});
  MILLRACE_CHECK(options.sequences >= 1 && logits.shape[0] % options.sequences == 0, ExitCode::internal, component,
                 "logits is {}, expected tokens of {} sequences", to_string(logits.shape), options.sequences);
  check_operand(component, "choices", choices, {options.sequences, logits.shape[1]}, {DType::i32});
}

}  // namespace

void balance_loss(const ExecutionContext& context, const Tensor& logits, const Tensor& experts, BalanceLossOptions options,
                  const Tensor& loss, const Tensor& choices) {
  constexpr const char* component = "kernels.balance_loss";
  check_common(component, logits, choices, options);
  check_rank(component, "experts", experts, 2);
  check_operand(component, "experts", experts, {logits.shape[0], experts.shape[1]}, {DType::i32});
  check_operand(component, "loss", loss, {1}, {DType::f64});
  if (context.host_readable()) check_indices(component, "expert", experts, logits.shape[1]);
  table::balance_loss(context, logits, experts, options, loss, choices);
}

void balance_loss_input_gradient(const ExecutionContext& context, const Tensor& logits, const Tensor& choices, const Tensor& scale,
                                 BalanceLossOptions options, const Tensor& d_logits) {
  constexpr const char* component = "kernels.balance_loss_input_gradient";
  check_common(component, logits, choices, options);
  check_operand(component, "scale", scale, {1}, {DType::f32});
  check_operand(component, "d_logits", d_logits, logits.shape, {logits.dtype});
  table::balance_loss_input_gradient(context, logits, choices, scale, options, d_logits);
}

}  // namespace millrace::kernels
