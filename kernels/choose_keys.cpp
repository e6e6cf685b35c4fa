#include "kernels/choose_keys.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {
namespace {

void check_sizes(const char* component, const Shape& q, ChooseKeysOptions options) {
  MILLRACE_CHECK(q.rank() == 3, ExitCode::internal, component, "q is {}, expected [T, H, D]", to_string(q));
  check_rows(component, q[0], options.sequence);
  MILLRACE_CHECK(options.keys_per_query >= 1, ExitCode::config, component, "{} keys for each query, expected 1 or more",
                 options.keys_per_query);
}

}  // namespace

void choose_keys(const ExecutionContext& context, const Tensor& q, const Tensor& k, const Tensor& weights, const Tensor& segments,
                 ChooseKeysOptions options, const Tensor& keys, Scratch scratch) {
  constexpr const char* component = "kernels.choose_keys";
  check_sizes(component, q.shape, options);
  check_operand(component, "q", q, q.shape, {DType::f32, DType::bf16});
  check_operand(component, "k", k, {q.shape[0], q.shape[2]}, {q.dtype});
  check_operand(component, "weights", weights, {q.shape[0], q.shape[1]}, {DType::f32});
  check_operand(component, "segments", segments, {q.shape[0]}, {DType::i32});
  check_operand(component, "keys", keys, {q.shape[0], options.keys_per_query}, {DType::i32});
  check_scratch(component, scratch, needed_scratch(table::choose_keys_scratch_bytes, context, q.shape, q.dtype, options));
  table::choose_keys(context, q, k, weights, segments, options, keys, scratch);
}

std::size_t choose_keys_scratch_bytes(const Shape& q, DType dtype, ChooseKeysOptions options, const Processor& processor) {
  check_sizes("kernels.choose_keys_scratch_bytes", q, options);
  return planned_scratch(table::choose_keys_scratch_bytes, processor, q, dtype, options);
}

}  // namespace millrace::kernels
