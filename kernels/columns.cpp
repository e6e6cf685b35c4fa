#include "kernels/columns.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {
namespace {

void check(const char* component, const Tensor& whole, std::span<const Tensor> parts) {
  check_rank(component, "the whole", whole, 2);
  check_operand(component, "the whole", whole, whole.shape, {DType::f32, DType::bf16});
  std::int64_t width = 0;
  for (const Tensor& part : parts) {
    check_rank(component, "a part", part, 2);
    check_operand(component, "a part", part, {whole.shape[0], part.shape[1]}, {whole.dtype});
    width += part.shape[1];
  }
  MILLRACE_CHECK(width == whole.shape[1], ExitCode::internal, component, "parts of {} columns together, expected {}", width,
                 whole.shape[1]);
}

}  // namespace

void split_columns(const ExecutionContext& context, const Tensor& x, std::span<const Tensor> parts) {
  check("kernels.split_columns", x, parts);
  table::split_columns(context, x, parts);
}

void join_columns(const ExecutionContext& context, std::span<const Tensor> parts, const Tensor& y) {
  check("kernels.join_columns", y, parts);
  table::join_columns(context, parts, y);
}

}  // namespace millrace::kernels
