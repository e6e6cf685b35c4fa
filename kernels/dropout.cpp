#include "kernels/dropout.hpp"

#include "kernels/base/dropout_mask.hpp"
#include "kernels/base/operands.hpp"

namespace millrace::kernels {

bool dropout_keeps(std::int32_t sample, DropoutOptions options, std::int64_t feature) noexcept {
  return dropout_keeps(dropout_key(sample, options.site), options.rate, feature);
}

void dropout(const ExecutionContext& context, const Tensor& x, const Tensor& samples, DropoutOptions options, const Tensor& y) {
  constexpr const char* component = "kernels.dropout";
  check_rank(component, "x", x, 2);
  check_operand(component, "x", x, x.shape, {DType::f32, DType::bf16});
  check_operand(component, "y", y, x.shape, {x.dtype});
  check_operand(component, "samples", samples, {x.shape[0]}, {DType::i32});
  MILLRACE_CHECK(options.rate >= 0 && options.rate < 1, ExitCode::config, component, "rate {}, expected from 0 to less than 1",
                 options.rate);
  table::dropout(context, x, samples, options, y);
}

}  // namespace millrace::kernels
