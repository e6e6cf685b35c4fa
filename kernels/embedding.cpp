#include "kernels/embedding.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {
namespace {

/// If the host cannot read the tokens, the kernel checks them.
void check_tokens(const char* component, const Tensor& tokens, std::int64_t vocabulary) {
  const auto* token = tokens.as<std::int32_t>();
  for (std::int64_t t = 0; t < tokens.elements(); ++t)
    MILLRACE_CHECK(token[t] >= 0 && token[t] < vocabulary, ExitCode::data, component, "token {} at position {}, expected 0 to {}", token[t],
                   t, vocabulary - 1);
}

}  // namespace

void embedding_forward(const ExecutionContext& context, const Tensor& tokens, const Tensor& table, const Tensor& y) {
  constexpr const char* component = "kernels.embedding_forward";
  check_rank(component, "tokens", tokens, 1);
  check_rank(component, "table", table, 2);
  check_operand(component, "tokens", tokens, tokens.shape, {DType::i32});
  check_operand(component, "table", table, table.shape, {DType::f32, DType::bf16});
  check_operand(component, "y", y, {tokens.shape[0], table.shape[1]}, {DType::f32, DType::bf16});
  if (context.host_readable()) check_tokens(component, tokens, table.shape[0]);
  table::embedding_forward(context, tokens, table, y);
}

void embedding_weight_gradient(const ExecutionContext& context, const Tensor& tokens, const Tensor& dy, const Tensor& gradient) {
  constexpr const char* component = "kernels.embedding_weight_gradient";
  check_rank(component, "tokens", tokens, 1);
  check_rank(component, "gradient", gradient, 2);
  check_operand(component, "tokens", tokens, tokens.shape, {DType::i32});
  check_operand(component, "gradient", gradient, gradient.shape, {DType::f32});
  check_operand(component, "dy", dy, {tokens.shape[0], gradient.shape[1]}, {DType::f32, DType::bf16});
  if (context.host_readable()) check_tokens(component, tokens, gradient.shape[0]);
  table::embedding_weight_gradient(context, tokens, dy, gradient);
}

}  // namespace millrace::kernels
