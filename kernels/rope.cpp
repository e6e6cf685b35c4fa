#include "kernels/rope.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {

void rope(const ExecutionContext& context, const Tensor& x, const Tensor& positions, const Tensor& inverse_frequencies, RopeOptions options,
          const Tensor& y) {
  constexpr const char* component = "kernels.rope";
  check_rank(component, "x", x, 3);
  check_operand(component, "x", x, x.shape, {DType::f32, DType::bf16});
  check_operand(component, "y", y, x.shape, {x.dtype});
  check_operand(component, "positions", positions, {x.shape[0]}, {DType::i32});
  const std::int64_t rotated = x.shape[2] - options.unrotated;
  MILLRACE_CHECK(options.unrotated >= 0 && rotated >= 0 && rotated % 2 == 0, ExitCode::config, component,
                 "heads of {} features of which {} are not rotated, expected an even number of rotated features", x.shape[2],
                 options.unrotated);
  check_operand(component, "inverse_frequencies", inverse_frequencies, {rotated / 2}, {DType::f32});
  MILLRACE_CHECK(options.direction == 1 || options.direction == -1, ExitCode::internal, component, "direction = {}, expected 1 or -1",
                 options.direction);
  table::rope(context, x, positions, inverse_frequencies, options, y);
}

}  // namespace millrace::kernels
