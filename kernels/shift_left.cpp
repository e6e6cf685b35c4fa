#include "kernels/shift_left.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {

void shift_left(const ExecutionContext& context, const Tensor& x, const Tensor& segments, ShiftOptions options, const Tensor& y) {
  constexpr const char* component = "kernels.shift_left";
  check_rank(component, "x", x, 1);
  check_operand(component, "x", x, x.shape, {DType::i32});
  check_operand(component, "segments", segments, x.shape, {DType::i32});
  check_operand(component, "y", y, x.shape, {DType::i32});
  MILLRACE_CHECK(options.sequence >= 1 && x.shape[0] % options.sequence == 0, ExitCode::internal, component,
                 "x {} in rows of {} tokens, expected whole rows", to_string(x.shape), options.sequence);
  MILLRACE_CHECK(options.distance >= 1, ExitCode::internal, component, "a distance of {}, expected 1 or more", options.distance);
  table::shift_left(context, x, segments, options, y);
}

}  // namespace millrace::kernels
