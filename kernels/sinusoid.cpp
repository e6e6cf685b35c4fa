#include "kernels/sinusoid.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {

void add_sinusoid(const ExecutionContext& context, const Tensor& x, const Tensor& positions, const Tensor& inverse_timescales,
                  const Tensor& y) {
  constexpr const char* component = "kernels.add_sinusoid";
  check_rank(component, "x", x, 2);
  MILLRACE_CHECK(x.shape[1] % 2 == 0, ExitCode::config, component, "width {} is odd, expected halves of one size", x.shape[1]);
  check_operand(component, "x", x, x.shape, {DType::f32, DType::bf16});
  check_operand(component, "y", y, x.shape, {x.dtype});
  check_operand(component, "positions", positions, {x.shape[0]}, {DType::i32});
  check_operand(component, "inverse_timescales", inverse_timescales, {x.shape[1] / 2}, {DType::f32});
  table::add_sinusoid(context, x, positions, inverse_timescales, y);
}

}  // namespace millrace::kernels
