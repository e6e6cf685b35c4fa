#include "kernels/indexer_loss.hpp"

#include "kernels/base/key_lists.hpp"
#include "kernels/base/operands.hpp"

namespace millrace::kernels {
namespace {

void check_sizes(const char* component, const Shape& q, const Shape& index_q, IndexerLossOptions options) {
  MILLRACE_CHECK(q.rank() == 3 && index_q.rank() == 3 && index_q[0] == q[0], ExitCode::internal, component,
                 "q is {}, index_q is {}, expected [T, H, D] and [T, Hi, Di]", to_string(q), to_string(index_q));
  check_rows(component, q[0], options.sequence);
  MILLRACE_CHECK(options.head_dim == 0 || options.head_dim == q[2], ExitCode::internal, component,
                 "head size {}, expected {} as in the options", q[2], options.head_dim);
  MILLRACE_CHECK(options.list_length >= 0, ExitCode::internal, component, "key lists of {} keys, expected 0 or more", options.list_length);
}

void check_operands(const char* component, const ExecutionContext& context, const IndexerLossOperands& in, IndexerLossOptions options,
                    const Tensor& loss, Scratch scratch) {
  check_sizes(component, in.q.shape, in.index_q.shape, options);
  const std::int64_t tokens = in.q.shape[0];
  check_rank(component, "k", in.k, 3);
  MILLRACE_CHECK(in.k.shape[1] > 0 && in.q.shape[1] % in.k.shape[1] == 0, ExitCode::config, component,
                 "{} query heads on {} key/value heads, expected a multiple", in.q.shape[1], in.k.shape[1]);
  check_operand(component, "q", in.q, in.q.shape, {DType::f32, DType::bf16});
  check_operand(component, "k", in.k, {tokens, in.k.shape[1], in.q.shape[2]}, {in.q.dtype});
  check_operand(component, "index_q", in.index_q, in.index_q.shape, {in.q.dtype});
  check_operand(component, "index_k", in.index_k, {tokens, in.index_q.shape[2]}, {in.q.dtype});
  check_operand(component, "index_weights", in.index_weights, {tokens, in.index_q.shape[1]}, {DType::f32});
  check_operand(component, "segments", in.segments, {tokens}, {DType::i32});
  MILLRACE_CHECK((in.keys != nullptr) == (options.list_length > 0), ExitCode::internal, component, "key lists of {} keys, and there are {}",
                 options.list_length, in.keys != nullptr ? "some" : "none");
  if (in.keys != nullptr) {
    check_operand(component, "keys", *in.keys, {tokens, options.list_length}, {DType::i32});
    if (context.host_readable()) check_key_lists(component, *in.keys, options.sequence);
  }
  check_operand(component, "loss", loss, {1}, {DType::f64});
  check_scratch(component, scratch,
                needed_scratch(table::indexer_loss_scratch_bytes, context, in.q.shape, in.index_q.shape, in.q.dtype, options));
}

}  // namespace

void indexer_loss(const ExecutionContext& context, const IndexerLossOperands& in, IndexerLossOptions options, const Tensor& loss,
                  Scratch scratch) {
  check_operands("kernels.indexer_loss", context, in, options, loss, scratch);
  table::indexer_loss(context, in, options, loss, scratch);
}

void indexer_loss_input_gradient(const ExecutionContext& context, const IndexerLossOperands& in, const Tensor& scale,
                                 IndexerLossOptions options, const Tensor& d_index_q, const Tensor& d_index_k,
                                 const Tensor& d_index_weights, const Tensor& loss, Scratch scratch) {
  constexpr const char* component = "kernels.indexer_loss_input_gradient";
  check_operands(component, context, in, options, loss, scratch);
  check_operand(component, "scale", scale, {1}, {DType::f32});
  check_operand(component, "d_index_q", d_index_q, in.index_q.shape, {in.q.dtype});
  check_operand(component, "d_index_k", d_index_k, in.index_k.shape, {in.q.dtype});
  check_operand(component, "d_index_weights", d_index_weights, in.index_weights.shape, {DType::f32});
  table::indexer_loss_input_gradient(context, in, scale, options, d_index_q, d_index_k, d_index_weights, loss, scratch);
}

std::size_t indexer_loss_scratch_bytes(const Shape& q, const Shape& index_q, DType dtype, IndexerLossOptions options,
                                       const Processor& processor) {
  check_sizes("kernels.indexer_loss_scratch_bytes", q, index_q, options);
  return planned_scratch(table::indexer_loss_scratch_bytes, processor, q, index_q, dtype, options);
}

}  // namespace millrace::kernels
