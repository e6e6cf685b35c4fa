#include "kernels/attention.hpp"

#include <algorithm>

#include "kernels/base/operands.hpp"

namespace millrace::kernels {
namespace {

void check_sizes(const char* component, const Shape& q, const Shape& k, AttentionOptions options) {
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
  MILLRACE_CHECK(options.window >= 0 && options.chunk >= 0 && options.soft_cap >= 0 && options.block >= 0, ExitCode::config, component,
                 "window {}, chunk {}, soft cap {}, block {}, expected none below 0", options.window, options.chunk, options.soft_cap,
                 options.block);
  MILLRACE_CHECK(options.block == 0 || options.causal, ExitCode::config, component,
                 "blocks of {} keys without causal, expected causal attention", options.block);
}

void check_choice(const char* component, const Shape& q, AttentionOptions options, const Tensor* choice) {
  MILLRACE_CHECK((choice != nullptr) == (options.block > 0), ExitCode::internal, component,
                 "blocks of {} keys {} a choice, expected both or neither", options.block, choice == nullptr ? "without" : "with");
  if (choice != nullptr)
    check_operand(component, "choice", *choice, {q[0], q[1], choice_words(options.sequence, options.block)}, {DType::i32});
}

void check_operands(const char* component, const ExecutionContext& context, const Tensor& q, const Tensor& k, const Tensor& v,
                    const Tensor& segments, AttentionOptions options, const Tensor& o, const Tensor& log_sum_exp, Scratch scratch) {
  check_sizes(component, q.shape, k.shape, options);
  check_operand(component, "q", q, q.shape, {DType::f32, DType::bf16});
  check_operand(component, "k", k, {q.shape[0], k.shape[1], q.shape[2]}, {q.dtype});
  const std::int64_t v_head_dim = value_width(options, q.shape[2]);
  check_operand(component, "v", v, {q.shape[0], k.shape[1], v_head_dim}, {q.dtype});
  check_operand(component, "o", o, {q.shape[0], q.shape[1], v_head_dim}, {q.dtype});
  check_operand(component, "segments", segments, {q.shape[0]}, {DType::i32});
  check_operand(component, "log_sum_exp", log_sum_exp, {q.shape[0], q.shape[1]}, {DType::f32});
  check_scratch(component, scratch, needed_scratch(table::attention_scratch_bytes, context, q.shape, k.shape, q.dtype, options));
}

/// Number of pairs among the first `count` tokens of a chunk when a window limits the keys. To both sides it is twice the causal number,
/// less the pairs of a token with itself.
double pairs_of_chunk(double count, double window, bool causal) {
  const double reach = window <= 0 || window >= count ? count : window;
  const double pairs = reach * (reach + 1) / 2 + (count - reach) * reach;
  return causal ? pairs : 2 * pairs - count;
}

/// Number of pairs of a row if a query sees its own block and blocks - 1 earlier ones.
double pairs_of_blocks(AttentionOptions options) {
  const auto block = static_cast<double>(options.block);
  double pairs = 0;
  for (std::int64_t first = 0, earlier = 0; first < options.sequence; first += options.block, ++earlier) {
    const auto queries = static_cast<double>(std::min(options.block, options.sequence - first));
    pairs += queries * (queries + 1) / 2 + queries * block * static_cast<double>(std::min(earlier, options.blocks - 1));
  }
  return pairs;
}

/// The pairs that window and chunk leave.
double pairs_of_ranges(AttentionOptions options) {
  const auto sequence = static_cast<double>(options.sequence), window = static_cast<double>(options.window);
  if (options.chunk == 0 || options.chunk >= options.sequence) return pairs_of_chunk(sequence, window, options.causal);
  const auto chunks = static_cast<double>(options.sequence / options.chunk), rest = static_cast<double>(options.sequence % options.chunk);
  return chunks * pairs_of_chunk(static_cast<double>(options.chunk), window, options.causal) + pairs_of_chunk(rest, window, options.causal);
}

}  // namespace

double attention_pairs(AttentionOptions options) {
  const double pairs = pairs_of_ranges(options);
  return options.block > 0 && options.blocks > 0 ? std::min(pairs, pairs_of_blocks(options)) : pairs;
}

void attention_forward(const ExecutionContext& context, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& segments,
                       AttentionOptions options, const Tensor& o, const Tensor& log_sum_exp, Scratch scratch, const Tensor* sinks,
                       const Tensor* choice) {
  constexpr const char* component = "kernels.attention_forward";
  check_operands(component, context, q, k, v, segments, options, o, log_sum_exp, scratch);
  if (sinks != nullptr) check_operand(component, "sinks", *sinks, {q.shape[1]}, {DType::f32});
  check_choice(component, q.shape, options, choice);
  table::attention_forward(context, q, k, v, segments, options, o, log_sum_exp, scratch, sinks, choice);
}

void attention_input_gradient(const ExecutionContext& context, const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v,
                              const Tensor& o, const Tensor& log_sum_exp, const Tensor& segments, AttentionOptions options,
                              const Tensor& dq, const Tensor& dk, const Tensor& dv, Scratch scratch, const Tensor* choice) {
  constexpr const char* component = "kernels.attention_input_gradient";
  check_operands(component, context, q, k, v, segments, options, o, log_sum_exp, scratch);
  check_operand(component, "d_o", d_o, o.shape, {q.dtype});
  check_operand(component, "dq", dq, q.shape, {q.dtype});
  check_operand(component, "dk", dk, k.shape, {q.dtype});
  check_operand(component, "dv", dv, v.shape, {q.dtype});
  check_choice(component, q.shape, options, choice);
  table::attention_input_gradient(context, d_o, q, k, v, o, log_sum_exp, segments, options, dq, dk, dv, scratch, choice);
}

void attention_sink_gradient(const ExecutionContext& context, const Tensor& d_o, const Tensor& o, const Tensor& log_sum_exp,
                             const Tensor& sinks, const Tensor& d_sinks) {
  constexpr const char* component = "kernels.attention_sink_gradient";
  check_rank(component, "o", o, 3);
  check_operand(component, "o", o, o.shape, {DType::f32, DType::bf16});
  check_operand(component, "d_o", d_o, o.shape, {o.dtype});
  check_operand(component, "log_sum_exp", log_sum_exp, {o.shape[0], o.shape[1]}, {DType::f32});
  check_operand(component, "sinks", sinks, {o.shape[1]}, {DType::f32});
  check_operand(component, "d_sinks", d_sinks, {o.shape[1]}, {DType::f32});
  table::attention_sink_gradient(context, d_o, o, log_sum_exp, sinks, d_sinks);
}

std::size_t attention_scratch_bytes(const Shape& q, const Shape& k, DType dtype, AttentionOptions options, const Processor& processor) {
  check_sizes("kernels.attention_scratch_bytes", q, k, options);
  return planned_scratch(table::attention_scratch_bytes, processor, q, k, dtype, options);
}

}  // namespace millrace::kernels
