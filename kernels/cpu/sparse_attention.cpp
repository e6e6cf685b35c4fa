#include "kernels/sparse_attention.hpp"

#include <algorithm>

#include "kernels/base/buffer.hpp"
#include "kernels/cpu/aligned_scratch.hpp"
#include "kernels/cpu/items_in_turn.hpp"
#include "kernels/cpu/sparse_attention_loops.hpp"

namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kQueryTile = 16;  // the queries that a thread takes at a time, so that it may find their keys in its caches

SparseAttentionSizes sizes_of(const Shape& q, const Shape& k, std::int64_t length, SparseAttentionOptions options) {
  const auto padded = [](std::int64_t width) { return (width + 15) / 16 * 16; };
  const std::int64_t values = value_width(options, q[2]);
  return {.sequence = options.sequence,
          .heads = q[1],
          .kv_heads = k[1],
          .width = q[2],
          .value_width = values,
          .length = length,
          .padded = padded(q[2]),
          .value_padded = padded(values),
          .list_padded = padded(length),
          .scale = options.scale,
          .soft_cap = options.soft_cap};
}

template <class T, class Tokens>
void forward(ThreadTeam& team, const SparseForward<T>& at, Tokens* tokens_of_head, std::int64_t tokens, float* memory) {
  const SparseAttentionSizes& sizes = at.sizes;
  const std::int64_t tiles = (tokens + kQueryTile - 1) / kQueryTile;
  for_items_in_turn(team, tiles * sizes.kv_heads, [&](std::int64_t item, int thread) {
    const std::int64_t begin = item % tiles * kQueryTile;
    tokens_of_head(at, item / tiles, begin, std::min(begin + kQueryTile, tokens),
                   memory + thread * per_thread(sparse_forward_floats(sizes)));
  });
}

template <class T, class Row>
void backward(ThreadTeam& team, const SparseBackward<T>& at, Row* row_of_head, std::int64_t tokens, float* memory) {
  const SparseAttentionSizes& sizes = at.sizes;
  for_items_in_turn(team, tokens / sizes.sequence * sizes.kv_heads, [&](std::int64_t item, int thread) {
    row_of_head(at, item / sizes.kv_heads, item % sizes.kv_heads, memory + thread * per_thread(sparse_backward_floats(sizes)));
  });
}

void sparse_attention_forward(const ExecutionContext& context, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& keys,
                              SparseAttentionOptions options, const Tensor& o, const Tensor& log_sum_exp, Scratch scratch) {
  const auto call = [&]<class T>(T, auto* tokens_of_head) {
    forward(context.team(),
            SparseForward<T>{sizes_of(q.shape, k.shape, keys.shape[1], options), q.as<T>(), k.as<T>(), v.as<T>(), keys.as<std::int32_t>(),
                             o.as<T>(), log_sum_exp.as<float>()},
            tokens_of_head, q.shape[0], reinterpret_cast<float*>(aligned_begin(scratch)));
  };
  if (q.dtype == DType::f32)
    call(float{}, pick_sparse_forward_f32());
  else
    call(BFloat16{}, pick_sparse_forward_bf16());
}

void sparse_attention_input_gradient(const ExecutionContext& context, const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v,
                                     const Tensor& o, const Tensor& log_sum_exp, const Tensor& keys, SparseAttentionOptions options,
                                     const Tensor& dq, const Tensor& dk, const Tensor& dv, Scratch scratch) {
  const auto call = [&]<class T>(T, auto* row_of_head) {
    backward(context.team(),
             SparseBackward<T>{sizes_of(q.shape, k.shape, keys.shape[1], options), d_o.as<T>(), q.as<T>(), k.as<T>(), v.as<T>(), o.as<T>(),
                               log_sum_exp.as<float>(), keys.as<std::int32_t>(), dq.as<T>(), dk.as<T>(), dv.as<T>()},
             row_of_head, q.shape[0], reinterpret_cast<float*>(aligned_begin(scratch)));
  };
  if (q.dtype == DType::f32)
    call(float{}, pick_sparse_backward_f32());
  else
    call(BFloat16{}, pick_sparse_backward_bf16());
}

std::size_t sparse_attention_scratch_bytes(const Shape& q, const Shape& k, std::int64_t list_length, DType /*dtype*/,
                                           SparseAttentionOptions options, const Processor& processor) {
  const SparseAttentionSizes sizes = sizes_of(q, k, list_length, options);
  const std::int64_t floats = std::max(per_thread(sparse_forward_floats(sizes)), per_thread(sparse_backward_floats(sizes)));
  return align_up(static_cast<std::size_t>(processor.threads * floats) * sizeof(float) + kAlignment);
}

const InTable in_table[] = {
    {Backend::cpu, table::sparse_attention_forward, sparse_attention_forward},
    {Backend::cpu, table::sparse_attention_input_gradient, sparse_attention_input_gradient},
    {Backend::cpu, table::sparse_attention_scratch_bytes, sparse_attention_scratch_bytes},
};

}  // namespace
}  // namespace millrace::kernels::cpu
