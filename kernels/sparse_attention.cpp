#include "kernels/sparse_attention.hpp"

#include "kernels/base/key_lists.hpp"
#include "kernels/base/operands.hpp"

namespace millrace::kernels {
namespace {

void check_sizes(const char* component, const Shape& q, const Shape& k, SparseAttentionOptions options) {
  MILLRACE_CHECK(q.rank() == 3 && k.rank() == 3, ExitCode::internal, component, "q is {}, k is {}, expected [T, H, D] and [T, K, D]",
                 to_string(q), to_string(k));
  MILLRACE_CHECK(k[1] > 0 && q[1] % k[1] == 0, ExitCode::config, component, "{} query heads on {} key/value heads, expected a multiple",
                 q[1], k[1]);
  check_rows(component, q[0], options.sequence);
  MILLRACE_CHECK(options.head_dim == 0 || options.head_dim == q[2], ExitCode::internal, component,
                 "head size {}, expected {} as in the options", q[2], options.head_dim);
  MILLRACE_CHECK(q[2] > 0, ExitCode::config, component, "head size {}, expected 1 or more", q[2]);
  MILLRACE_CHECK(options.v_head_dim >= 0, ExitCode::config, component, "value size {}, expected 1 or more, or 0 for the head size",
                 options.v_head_dim);
  MILLRACE_CHECK(options.soft_cap >= 0, ExitCode::config, component, "soft cap {}, expected 0 or more", options.soft_cap);
}

void check_operands(const char* component, const ExecutionContext& context, const Tensor& q, const Tensor& k, const Tensor& v,
                    const Tensor& keys, SparseAttentionOptions options, const Tensor& o, const Tensor& log_sum_exp, Scratch scratch) {
  check_sizes(component, q.shape, k.shape, options);
  check_operand(component, "q", q, q.shape, {DType::f32, DType::bf16});
  check_operand(component, "k", k, {q.shape[0], k.shape[1], q.shape[2]}, {q.dtype});
  const std::int64_t v_head_dim = value_width(options, q.shape[2]);
  check_operand(component, "v", v, {q.shape[0], k.shape[1], v_head_dim}, {q.dtype});
  check_operand(component, "o", o, {q.shape[0], q.shape[1], v_head_dim}, {q.dtype});
  check_operand(component, "log_sum_exp", log_sum_exp, {q.shape[0], q.shape[1]}, {DType::f32});
  check_rank(component, "keys", keys, 2);
  check_operand(component, "keys", keys, {q.shape[0], keys.shape[1]}, {DType::i32});
  if (context.host_readable()) check_key_lists(component, keys, options.sequence);
  check_scratch(component, scratch,
                needed_scratch(table::sparse_attention_scratch_bytes, context, q.shape, k.shape, keys.shape[1], q.dtype, options));
}

}  // namespace

void sparse_attention_forward(const ExecutionContext& context, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& keys,
                              SparseAttentionOptions options, const Tensor& o, const Tensor& log_sum_exp, Scratch scratch) {
  check_operands("kernels.sparse_attention_forward", context, q, k, v, keys, options, o, log_sum_exp, scratch);
  table::sparse_attention_forward(context, q, k, v, keys, options, o, log_sum_exp, scratch);
}

void sparse_attention_input_gradient(const ExecutionContext& context, const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v,
                                     const Tensor& o, const Tensor& log_sum_exp, const Tensor& keys, SparseAttentionOptions options,
                                     const Tensor& dq, const Tensor& dk, const Tensor& dv, Scratch scratch) {
  constexpr const char* component = "kernels.sparse_attention_input_gradient";
  check_operands(component, context, q, k, v, keys, options, o, log_sum_exp, scratch);
  check_operand(component, "d_o", d_o, o.shape, {q.dtype});
  check_operand(component, "dq", dq, q.shape, {q.dtype});
  check_operand(component, "dk", dk, k.shape, {q.dtype});
  check_operand(component, "dv", dv, v.shape, {q.dtype});
  table::sparse_attention_input_gradient(context, d_o, q, k, v, o, log_sum_exp, keys, options, dq, dk, dv, scratch);
}

std::size_t sparse_attention_scratch_bytes(const Shape& q, const Shape& k, std::int64_t list_length, DType dtype,
                                           SparseAttentionOptions options, const Processor& processor) {
  check_sizes("kernels.sparse_attention_scratch_bytes", q, k, options);
  return planned_scratch(table::sparse_attention_scratch_bytes, processor, q, k, list_length, dtype, options);
}

}  // namespace millrace::kernels
