#include "kernels/moments.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {

void moments(const ExecutionContext& context, const Tensor& x, const Tensor& sums) {
  constexpr const char* component = "kernels.moments";
  check_rank(component, "x", x, 2);
  check_operand(component, "x", x, x.shape, {DType::f32, DType::bf16});
  check_operand(component, "sums", sums, {4}, {DType::f64});
  table::moments(context, x, sums);
}

}  // namespace millrace::kernels
