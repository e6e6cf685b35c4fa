#include "kernels/score_maxima.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {

void score_maxima(const ExecutionContext& context, const Tensor& q, const Tensor& k, const Tensor& segments, AttentionOptions options,
                  const Tensor& maxima, Scratch scratch) {
  constexpr const char* component = "kernels.score_maxima";
  check_rank(component, "q", q, 3);
  check_rank(component, "k", k, 3);
  MILLRACE_CHECK(k.shape[1] > 0 && q.shape[1] % k.shape[1] == 0, ExitCode::config, component,
                 "{} query heads on {} key/value heads, expected a multiple", q.shape[1], k.shape[1]);
  check_rows(component, q.shape[0], options.sequence);
  MILLRACE_CHECK(options.soft_cap == 0 && options.block == 0 && options.window >= 0 && options.chunk >= 0, ExitCode::internal, component,
                 "soft cap {}, block {}, window {}, chunk {}, expected neither cap nor blocks and none below 0", options.soft_cap,
                 options.block, options.window, options.chunk);
  check_operand(component, "q", q, q.shape, {DType::f32, DType::bf16});
  check_operand(component, "k", k, {q.shape[0], k.shape[1], q.shape[2]}, {q.dtype});
  check_operand(component, "segments", segments, {q.shape[0]}, {DType::i32});
  check_operand(component, "maxima", maxima, {q.shape[1]}, {DType::f64});
  check_scratch(component, scratch, needed_scratch(table::score_maxima_scratch_bytes, context, q.shape, options));
  table::score_maxima(context, q, k, segments, options, maxima, scratch);
}

std::size_t score_maxima_scratch_bytes(const Shape& q, AttentionOptions options, const Processor& processor) {
  return planned_scratch(table::score_maxima_scratch_bytes, processor, q, options);
}

}  // namespace millrace::kernels
