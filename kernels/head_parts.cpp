#include "kernels/head_parts.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {
namespace {

void check(const char* component, const Tensor& whole, HeadPartsOptions options, std::span<const Tensor> parts) {
  const auto count = static_cast<std::int64_t>(parts.size());
  MILLRACE_CHECK(options.heads > 0 && options.shared >= 0 && options.shared <= count, ExitCode::internal, component,
                 "{} heads of {} parts of which {} are shared, expected a head or more and no more shared parts than there are",
                 options.heads, count, options.shared);
  check_rank(component, "the whole", whole, 2);
  check_operand(component, "the whole", whole, whole.shape, {DType::f32, DType::bf16});
  std::int64_t width = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Tensor& part = parts[i];
    check_rank(component, "a part", part, 2);
    check_operand(component, "a part", part, {whole.shape[0], part.shape[1]}, {whole.dtype});
    const std::int64_t heads = is_shared_part(i, parts.size(), options.shared) ? 1 : options.heads;
    MILLRACE_CHECK(part.shape[1] % heads == 0, ExitCode::internal, component, "a part of {} columns, expected a multiple of {} heads",
                   part.shape[1], heads);
    width += part.shape[1] / heads * options.heads;
  }
  MILLRACE_CHECK(width == whole.shape[1], ExitCode::internal, component, "parts that make {} columns together, expected {}", width,
                 whole.shape[1]);
}

}  // namespace

void join_heads(const ExecutionContext& context, std::span<const Tensor> parts, HeadPartsOptions options, const Tensor& y) {
  check("kernels.join_heads", y, options, parts);
  table::join_heads(context, parts, options, y);
}

void split_heads(const ExecutionContext& context, const Tensor& x, HeadPartsOptions options, std::span<const Tensor> parts) {
  check("kernels.split_heads", x, options, parts);
  table::split_heads(context, x, options, parts);
}

}  // namespace millrace::kernels
