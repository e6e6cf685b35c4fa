#include "kernels/embedding.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {

void embedding_forward(const ExecutionContext& context, const Tensor& tokens, const Tensor& table, const Tensor& y) {
  constexpr const char* component = "kernels.embedding_forward";
  check_rank(component, "tokens", tokens, 1);
  check_rank(component, "table", table, 2);
  check_operand(component, "tokens", tokens, tokens.shape, {DType::i32});
  check_operand(component, "table", table, table.shape, {DType::f32, DType::bf16});
  check_operand(component, "y", y, {tokens.shape[0], table.shape[1]}, {DType::f32, DType::bf16});
  // If the host cannot read the tokens, the kernels check them.
  if (context.host_readable()) check_indices(component, "token", tokens, table.shape[0], ExitCode::data);
  table::embedding_forward(context, tokens, table, y);
}

void embedding_weight_gradient(const ExecutionContext& context, const Tensor& tokens, const Tensor& dy, const Tensor& gradient) {
  constexpr const char* component = "kernels.embedding_weight_gradient";
  check_rank(component, "tokens", tokens, 1);
  check_rank(component, "gradient", gradient, 2);
  check_operand(component, "tokens", tokens, tokens.shape, {DType::i32});
  check_operand(component, "gradient", gradient, gradient.shape, {DType::f32});
  check_operand(component, "dy", dy, {tokens.shape[0], gradient.shape[1]}, {DType::f32, DType::bf16});
  if (context.host_readable()) check_indices(component, "token", tokens, gradient.shape[0], ExitCode::data);
  table::embedding_weight_gradient(context, tokens, dy, gradient);
}

}  // namespace millrace::kernels
