#include "kernels/embedding.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {
namespace {

/// Where the host cannot read them, the kernel checks them.
void check_tokens(const char* who, const Tensor& tokens, std::int64_t vocabulary) {
  const auto* token = tokens.as<std::int32_t>();
  for (std::int64_t t = 0; t < tokens.elements(); ++t)
    MILLRACE_CHECK(token[t] >= 0 && token[t] < vocabulary, ExitCode::data, who, "token {} at position {}, expected 0 to {}", token[t], t,
                   vocabulary - 1);
}

}  // namespace

void embedding_forward(const ExecutionContext& context, const Tensor& tokens, const Tensor& table, const Tensor& y) {
  constexpr const char* who = "kernels.embedding_forward";
  check_rank(who, "tokens", tokens, 1);
  check_rank(who, "table", table, 2);
  check_operand(who, "tokens", tokens, tokens.shape, {DType::i32});
  check_operand(who, "table", table, table.shape, {DType::f32, DType::bf16});
  check_operand(who, "y", y, {tokens.shape[0], table.shape[1]}, {DType::f32, DType::bf16});
  if (context.host_readable()) check_tokens(who, tokens, table.shape[0]);
  table::embedding_forward(context, tokens, table, y);
}

void embedding_weight_gradient(const ExecutionContext& context, const Tensor& tokens, const Tensor& dy, const Tensor& gradient) {
  constexpr const char* who = "kernels.embedding_weight_gradient";
  check_rank(who, "tokens", tokens, 1);
  check_rank(who, "gradient", gradient, 2);
  check_operand(who, "tokens", tokens, tokens.shape, {DType::i32});
  check_operand(who, "gradient", gradient, gradient.shape, {DType::f32});
  check_operand(who, "dy", dy, {tokens.shape[0], gradient.shape[1]}, {DType::f32, DType::bf16});
  if (context.host_readable()) check_tokens(who, tokens, gradient.shape[0]);
  table::embedding_weight_gradient(context, tokens, dy, gradient);
}

}  // namespace millrace::kernels
