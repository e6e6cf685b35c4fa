#include "kernels/grouped_matmul.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {
namespace {

/// Offsets have the groups of one source or of several. If the host cannot read them, the kernels check them.
void check_offsets(const ExecutionContext& context, const char* component, const Tensor& offsets, std::int64_t experts, std::int64_t rows) {
  check_rank(component, "offsets", offsets, 1);
  check_operand(component, "offsets", offsets, offsets.shape, {DType::i32});
  const std::int64_t groups = offsets.shape[0] - 1;
  MILLRACE_CHECK(groups > 0 && groups % experts == 0, ExitCode::internal, component,
                 "offsets is {}, expected [{}] or those of several sources", to_string(offsets.shape), experts + 1);
  if (!context.host_readable()) return;
  const auto* offset = offsets.as<std::int32_t>();
  MILLRACE_CHECK(offset[0] == 0, ExitCode::internal, component, "the first offset is {}, expected 0", offset[0]);
  for (std::int64_t g = 0; g < groups; ++g)
    MILLRACE_CHECK(offset[g] <= offset[g + 1] && offset[g + 1] <= rows, ExitCode::internal, component, "offset {} is {}, expected {} to {}",
                   g + 1, offset[g + 1], offset[g], rows);
}

void check_sizes(const char* component, const char* name, const Tensor& stack) {
  check_rank(component, name, stack, 3);
  MILLRACE_CHECK(stack.shape[0] > 0 && stack.shape[1] > 0 && stack.shape[2] > 0, ExitCode::internal, component,
                 "{} is {}, expected no empty axis", name, to_string(stack.shape));
}

}  // namespace

void grouped_matmul(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& offsets, const Tensor& c,
                    const GroupedMatmulOptions& options, Scratch scratch, const Tensor* bias) {
  constexpr const char* component = "kernels.grouped_matmul";
  check_rank(component, "a", a, 2);
  check_sizes(component, "b", b);
  const std::int64_t rows = a.shape[0], k = a.shape[1], experts = b.shape[0], n = b.shape[options.transpose_b ? 1 : 2];
  check_operand(component, "a", a, a.shape, {DType::f32, DType::bf16});
  check_operand(component, "b", b, options.transpose_b ? Shape{experts, n, k} : Shape{experts, k, n}, {a.dtype});
  check_operand(component, "c", c, {rows, n}, {DType::f32, a.dtype});
  check_offsets(context, component, offsets, experts, rows);
  MILLRACE_CHECK(options.bias == (bias != nullptr), ExitCode::internal, component, "a bias is {}, given {}",
                 options.bias ? "announced" : "not announced", bias != nullptr ? "one" : "none");
  if (bias != nullptr) check_operand(component, "bias", *bias, {experts, n}, {DType::f32});
  table::grouped_matmul(context, a, b, offsets, c, options, scratch, bias);
}

std::size_t grouped_matmul_scratch_bytes(const Shape& a, const Shape& b, DType operands, DType result, const GroupedMatmulOptions& options,
                                         const Processor& processor) {
  return planned_scratch(table::grouped_matmul_scratch_bytes, processor, a, b, operands, result, options);
}

void grouped_weight_gradient(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& offsets, const Tensor& c,
                             Scratch scratch) {
  constexpr const char* component = "kernels.grouped_weight_gradient";
  check_sizes(component, "c", c);
  check_rank(component, "a", a, 2);
  const std::int64_t rows = a.shape[0];
  check_operand(component, "a", a, {rows, c.shape[1]}, {DType::f32, DType::bf16});
  check_operand(component, "b", b, {rows, c.shape[2]}, {a.dtype});
  check_operand(component, "c", c, c.shape, {DType::f32});
  check_offsets(context, component, offsets, c.shape[0], rows);
  table::grouped_weight_gradient(context, a, b, offsets, c, scratch);
}

std::size_t grouped_weight_gradient_scratch_bytes(const Shape& a, const Shape& b, DType operands, const Processor& processor) {
  return planned_scratch(table::grouped_weight_gradient_scratch_bytes, processor, a, b, operands);
}

void grouped_bias_gradient(const ExecutionContext& context, const Tensor& a, const Tensor& offsets, const Tensor& c) {
  constexpr const char* component = "kernels.grouped_bias_gradient";
  check_rank(component, "a", a, 2);
  check_rank(component, "c", c, 2);
  check_operand(component, "a", a, {a.shape[0], c.shape[1]}, {DType::f32, DType::bf16});
  check_operand(component, "c", c, c.shape, {DType::f32});
  check_offsets(context, component, offsets, c.shape[0], a.shape[0]);
  table::grouped_bias_gradient(context, a, offsets, c);
}

}  // namespace millrace::kernels
