#include "kernels/scale_heads.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {

void scale_heads(const ExecutionContext& context, const HeadOutputs& outputs, std::span<const float> factors, const Tensor& matrix) {
  constexpr const char* component = "kernels.scale_heads";
  check_rank(component, "matrix", matrix, 2);
  check_operand(component, "matrix", matrix, matrix.shape, {DType::f32});
  const std::int64_t found = matrix.shape[outputs.rows ? 0 : 1];
  MILLRACE_CHECK(found == outputs.heads * outputs.width() && static_cast<std::int64_t>(factors.size()) == outputs.heads, ExitCode::internal,
                 component, "{} outputs and {} factors, expected {} heads of {}", found, factors.size(), outputs.heads, outputs.width());
  table::scale_heads(context, outputs, factors, matrix);
}

}  // namespace millrace::kernels
