#include "kernels/attention_temperature.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {

void attention_temperature(const ExecutionContext& context, const Tensor& x, const Tensor& positions, AttentionTemperatureOptions options,
                           const Tensor& y) {
  constexpr const char* component = "kernels.attention_temperature";
  check_rank(component, "x", x, 2);
  check_operand(component, "x", x, x.shape, {DType::f32, DType::bf16});
  check_operand(component, "y", y, x.shape, {x.dtype});
  check_operand(component, "positions", positions, {x.shape[0]}, {DType::i32});
  MILLRACE_CHECK(options.floor_scale > 0, ExitCode::config, component, "floor_scale = {}, expected 1 or more", options.floor_scale);
  table::attention_temperature(context, x, positions, options, y);
}

}  // namespace millrace::kernels
