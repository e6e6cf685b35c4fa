#include "kernels/embedding.hpp"

#include <cstring>

#include "kernels/base/operands.hpp"
#include "kernels/cpu/embedding_loops.hpp"
#include "kernels/cuda/operations.hpp"
#include "kernels/reference/embedding.hpp"

namespace millrace::kernels {
namespace {

void check_tokens(const char* who, const Tensor& tokens, std::int64_t vocabulary) {
  const auto* token = tokens.as<std::int32_t>();
  for (std::int64_t t = 0; t < tokens.elements(); ++t)
    MILLRACE_CHECK(token[t] >= 0 && token[t] < vocabulary, ExitCode::data, who, "token {} at position {}, expected 0 to {}", token[t], t,
                   vocabulary - 1);
}

void copy_rows(const std::int32_t* tokens, const Tensor& table, const Tensor& y, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = table.shape[1];
  const std::size_t bytes = static_cast<std::size_t>(width) * size_of(table.dtype);
  for (std::int64_t t = begin; t < end; ++t) {
    if (table.dtype == y.dtype)
      std::memcpy(y.data + static_cast<std::size_t>(t) * bytes, table.data + static_cast<std::size_t>(tokens[t]) * bytes, bytes);
    else if (y.dtype == DType::bf16)
      cpu::pick_narrow_row()(table.as<float>() + tokens[t] * width, y.as<BFloat16>() + t * width, width);
    else
      cpu::pick_widen_row()(table.as<BFloat16>() + tokens[t] * width, y.as<float>() + t * width, width);
  }
}

}  // namespace

void embedding_forward(const ExecutionContext& context, const Tensor& tokens, const Tensor& table, const Tensor& y) {
  constexpr const char* who = "kernels.embedding_forward";
  check_rank(who, "tokens", tokens, 1);
  check_rank(who, "table", table, 2);
  check_operand(who, "tokens", tokens, tokens.shape, {DType::i32});
  check_operand(who, "table", table, table.shape, {DType::f32, DType::bf16});
  check_operand(who, "y", y, {tokens.shape[0], table.shape[1]}, {DType::f32, DType::bf16});
  if (context.on_cuda()) return cuda::embedding_forward(context, tokens, table, y);
  check_tokens(who, tokens, table.shape[0]);
  if (context.implementation() == Implementation::reference) return reference::embedding_forward(tokens, table, y);
  context.team().for_ranges(tokens.elements(), 16,
                            [&](std::int64_t begin, std::int64_t end) { copy_rows(tokens.as<std::int32_t>(), table, y, begin, end); });
}

void embedding_weight_gradient(const ExecutionContext& context, const Tensor& tokens, const Tensor& dy, const Tensor& gradient) {
  constexpr const char* who = "kernels.embedding_weight_gradient";
  check_rank(who, "tokens", tokens, 1);
  check_rank(who, "gradient", gradient, 2);
  check_operand(who, "tokens", tokens, tokens.shape, {DType::i32});
  check_operand(who, "gradient", gradient, gradient.shape, {DType::f32});
  check_operand(who, "dy", dy, {tokens.shape[0], gradient.shape[1]}, {DType::f32, DType::bf16});
  if (context.on_cuda()) return cuda::embedding_weight_gradient(context, tokens, dy, gradient);
  check_tokens(who, tokens, gradient.shape[0]);
  if (context.implementation() == Implementation::reference) return reference::embedding_weight_gradient(tokens, dy, gradient);
  const std::int64_t width = gradient.shape[1];
  // Threads own columns, so each element takes its tokens in order whatever their number.
  context.team().for_ranges(width, 16, [&](std::int64_t begin, std::int64_t end) {
    if (dy.dtype == DType::f32)
      cpu::pick_embedding_gradient_f32()(tokens.as<std::int32_t>(), tokens.elements(), dy.as<float>(), gradient.as<float>(), width, begin,
                                         end);
    else
      cpu::pick_embedding_gradient_bf16()(tokens.as<std::int32_t>(), tokens.elements(), dy.as<BFloat16>(), gradient.as<float>(), width,
                                          begin, end);
  });
}

}  // namespace millrace::kernels
