#include "kernels/choose_blocks.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {
namespace {

void check_options(const char* component, std::int64_t tokens, ChooseBlocksOptions options) {
  check_rows(component, tokens, options.sequence);
  MILLRACE_CHECK(options.block >= 1 && options.blocks >= 1, ExitCode::config, component,
                 "{} blocks of {} keys for a query, expected 1 or more of 1 or more", options.blocks, options.block);
}

}  // namespace

void choose_blocks(const ExecutionContext& context, const Tensor& q, const Tensor& k, ChooseBlocksOptions options, const Tensor& choice,
                   Scratch scratch) {
  constexpr const char* component = "kernels.choose_blocks";
  MILLRACE_CHECK(q.shape.rank() == 3 && k.shape.rank() == 3, ExitCode::internal, component,
                 "q is {}, k is {}, expected [T, H, D] and [T, K, D]", to_string(q.shape), to_string(k.shape));
  MILLRACE_CHECK(k.shape[1] > 0 && q.shape[1] % k.shape[1] == 0, ExitCode::config, component,
                 "{} query heads on {} key/value heads, expected a multiple", q.shape[1], k.shape[1]);
  MILLRACE_CHECK(options.head_dim == 0 || options.head_dim == q.shape[2], ExitCode::internal, component,
                 "head size {}, expected {} as in the options", q.shape[2], options.head_dim);
  check_options(component, q.shape[0], options);
  check_operand(component, "q", q, q.shape, {DType::f32, DType::bf16});
  check_operand(component, "k", k, {q.shape[0], k.shape[1], q.shape[2]}, {q.dtype});
  check_operand(component, "choice", choice, {q.shape[0], q.shape[1], choice_words(options.sequence, options.block)}, {DType::i32});
  check_scratch(component, scratch, needed_scratch(table::choose_blocks_scratch_bytes, context, k.shape, options));
  table::choose_blocks(context, q, k, options, choice, scratch);
}

std::size_t choose_blocks_scratch_bytes(const Shape& k, ChooseBlocksOptions options, const Processor& processor) {
  constexpr const char* component = "kernels.choose_blocks_scratch_bytes";
  MILLRACE_CHECK(k.rank() == 3, ExitCode::internal, component, "k is {}, expected [T, K, D]", to_string(k));
  check_options(component, k[0], options);
  return planned_scratch(table::choose_blocks_scratch_bytes, processor, k, options);
}

}  // namespace millrace::kernels
