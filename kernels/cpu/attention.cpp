#include "kernels/attention.hpp"

#include <algorithm>

#include "kernels/base/buffer.hpp"
#include "kernels/cpu/attention_loops.hpp"
#include "kernels/cpu/items_in_turn.hpp"
#include "kernels/cpu/matmul_part.hpp"
#include "kernels/cpu/share_heads.hpp"
#include "kernels/cpu/tile_attention_loops.hpp"
#include "kernels/reference/attention.hpp"

namespace millrace::kernels::cpu {
namespace {

AttentionSizes sizes_of(const Shape& q, const Shape& k, DType dtype, AttentionOptions options) {
  AttentionSizes sizes{};
  const auto padded = [multiple = multiplies_in_bf16(dtype) ? kTileAttentionWidth : 16](std::int64_t width) {
    return (width + multiple - 1) / multiple * multiple;
  };
  sizes.sequence = options.sequence;
  sizes.rows = q[0] / options.sequence;
  sizes.heads = q[1];
  sizes.kv_heads = k[1];
  sizes.width = q[2];
  sizes.padded = padded(q[2]);
  sizes.value_width = value_width(options, q[2]);
  sizes.value_padded = padded(sizes.value_width);
  sizes.tiles = (options.sequence + kTile - 1) / kTile;
  sizes.scale = options.scale;
  sizes.soft_cap = options.soft_cap;
  sizes.window = options.window > 0 ? options.window : options.sequence;
  sizes.chunk = options.chunk > 0 ? options.chunk : options.sequence;
  sizes.causal = options.causal;
  sizes.block = options.block;
  sizes.words = options.block > 0 ? choice_words(options.sequence, options.block) : 0;
  return sizes;
}

// Floats of a thread's memory: a packed head, and what the loops of each direction need.
struct Memory {
  std::int64_t packed, forward, backward;
};
Memory memory_of(const AttentionSizes& sizes, DType dtype) {
  if (multiplies_in_bf16(dtype))
    return {per_thread(tile_packed_floats(sizes)), per_thread(tile_forward_floats(sizes)), per_thread(tile_backward_floats(sizes))};
  return {per_thread(packed_floats(sizes)), per_thread(forward_floats(sizes)), per_thread(backward_floats(sizes))};
}

template <class T, class Pack, class Tile>
void forward(ThreadTeam& team, const AttentionForward<T>& at, const Memory& size, Pack* pack, Tile* forward_tile, Scratch scratch) {
  const AttentionSizes& sizes = at.sizes;
  auto* in_work = reinterpret_cast<HeadInWork*>(scratch.data());
  auto* packed = reinterpret_cast<float*>(in_work + team.size());
  auto* memory = packed + team.size() * size.packed;
  share_heads(
      team, sizes.rows * sizes.kv_heads, sizes.tiles, in_work,
      [&](int owner, std::int64_t head) { pack(at, head / sizes.kv_heads, head % sizes.kv_heads, packed + owner * size.packed); },
      [&](int owner, std::int64_t head, std::int64_t tile, int thread) {
        // Later tiles have the most work, so they go first.
        forward_tile(at, head / sizes.kv_heads, head % sizes.kv_heads, sizes.tiles - 1 - tile, packed + owner * size.packed,
                     memory + thread * size.forward);
      });
}

template <class T, class Head>
void backward(ThreadTeam& team, const AttentionBackward<T>& at, const Memory& size, Head* backward_head, Scratch scratch) {
  auto* memory = reinterpret_cast<float*>(scratch.data());
  const AttentionSizes& sizes = at.sizes;
  for_items_in_turn(team, sizes.rows * sizes.kv_heads, [&](std::int64_t item, int thread) {
    backward_head(at, item / sizes.kv_heads, item % sizes.kv_heads, memory + thread * size.backward);
  });
}

void attention_forward(const ExecutionContext& context, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& segments,
                       AttentionOptions options, const Tensor& o, const Tensor& log_sum_exp, Scratch scratch, const Tensor* sinks,
                       const Tensor* choice) {
  const AttentionSizes sizes = sizes_of(q.shape, k.shape, q.dtype, options);
  const Memory memory = memory_of(sizes, q.dtype);
  const float* sink = sinks == nullptr ? nullptr : sinks->as<float>();
  const auto* segment = segments.as<std::int32_t>();
  const std::int32_t* chosen = choice == nullptr ? nullptr : choice->as<std::int32_t>();
  auto* sums = log_sum_exp.as<float>();
  ThreadTeam& team = context.team();
  if (q.dtype == DType::f32) {
    const AttentionForward<float> at{sizes, q.as<float>(), k.as<float>(), v.as<float>(), segment, sink, chosen, o.as<float>(), sums};
    forward(team, at, memory, pick_attention_pack_f32(), pick_attention_forward_f32(), scratch);
    return;
  }
  const AttentionForward<BFloat16> at{sizes, q.as<BFloat16>(), k.as<BFloat16>(), v.as<BFloat16>(), segment, sink, chosen, o.as<BFloat16>(),
                                      sums};
  if (multiplies_in_bf16(q.dtype))
    forward(team, at, memory, pick_tile_attention_pack(), pick_tile_attention_forward(), scratch);
  else
    forward(team, at, memory, pick_attention_pack_bf16(), pick_attention_forward_bf16(), scratch);
}

void attention_input_gradient(const ExecutionContext& context, const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v,
                              const Tensor& o, const Tensor& log_sum_exp, const Tensor& segments, AttentionOptions options,
                              const Tensor& dq, const Tensor& dk, const Tensor& dv, Scratch scratch, const Tensor* choice) {
  const AttentionSizes sizes = sizes_of(q.shape, k.shape, q.dtype, options);
  const Memory memory = memory_of(sizes, q.dtype);
  const auto* segment = segments.as<std::int32_t>();
  const std::int32_t* chosen = choice == nullptr ? nullptr : choice->as<std::int32_t>();
  const auto* sums = log_sum_exp.as<float>();
  ThreadTeam& team = context.team();
  if (q.dtype == DType::f32) {
    const AttentionBackward<float> at{sizes, d_o.as<float>(), q.as<float>(), k.as<float>(),  v.as<float>(),  o.as<float>(),
                                      sums,  segment,         chosen,        dq.as<float>(), dk.as<float>(), dv.as<float>()};
    backward(team, at, memory, pick_attention_backward_f32(), scratch);
    return;
  }
  const AttentionBackward<BFloat16> at{
      sizes,  d_o.as<BFloat16>(), q.as<BFloat16>(),  k.as<BFloat16>(), v.as<BFloat16>(), o.as<BFloat16>(), sums, segment,
      chosen, dq.as<BFloat16>(),  dk.as<BFloat16>(), dv.as<BFloat16>()};
  backward(team, at, memory, multiplies_in_bf16(q.dtype) ? pick_tile_attention_backward() : pick_attention_backward_bf16(), scratch);
}

// A pass over two tensors that attention has just read: the plain loops, one head per thread.
void attention_sink_gradient(const ExecutionContext& context, const Tensor& d_o, const Tensor& o, const Tensor& log_sum_exp,
                             const Tensor& sinks, const Tensor& d_sinks) {
  context.team().for_ranges(o.shape[1], 1, [&](std::int64_t begin, std::int64_t end) {
    reference::attention_sink_gradient_of_heads(d_o, o, log_sum_exp, sinks, begin, end, d_sinks);
  });
}

std::size_t attention_scratch_bytes(const Shape& q, const Shape& k, DType dtype, AttentionOptions options, const Processor& processor) {
  const Memory memory = memory_of(sizes_of(q, k, dtype, options), dtype);
  const auto forward_bytes = sizeof(HeadInWork) + static_cast<std::size_t>(memory.packed + memory.forward) * sizeof(float);
  const auto backward_bytes = static_cast<std::size_t>(memory.backward) * sizeof(float);
  return align_up(static_cast<std::size_t>(processor.threads) * std::max(forward_bytes, backward_bytes));
}

const InTable in_table[] = {
    {Backend::cpu, table::attention_forward, attention_forward},
    {Backend::cpu, table::attention_input_gradient, attention_input_gradient},
    {Backend::cpu, table::attention_sink_gradient, attention_sink_gradient},
    {Backend::cpu, table::attention_scratch_bytes, attention_scratch_bytes},
};

}  // namespace
}  // namespace millrace::kernels::cpu
