#include "kernels/cuda/attention_backward_hopper.hpp"

#include "kernels/base/buffer.hpp"
#include "kernels/cuda/attention_hopper_tile.cuh"
#include "kernels/cuda/hopper_device.hpp"
#include "kernels/cuda/tensor_map.hpp"
#include "kernels/cuda/vector.cuh"

// dq, dk and dv without atomics, so that bits repeat: one kernel owns tiles of keys and adds up dk and dv over the queries that see them,
// the other owns tiles of queries and adds up dq. Both compute the probabilities again, so that together they have seven products where one
// kernel would have five. No matrix of scores is stored. P and dS are rounded to bf16 where they enter a product; all sums are fp32.
namespace millrace::kernels::cuda {
namespace {

using hopper::kLog2E, hopper::kStep, hopper::QueryNumbers;

constexpr const char* component = "kernels.attention_input_gradient";

bool covers(const Shape& q, const Shape& k, DType dtype, AttentionOptions options) {
  return dtype == DType::bf16 && options.soft_cap == 0 && options.block == 0 && options.sequence > 0 && options.sequence % kStep == 0 &&
         q[0] > 0 && q[0] % options.sequence == 0 && q[2] % 8 == 0 && q[2] <= 128 && value_width(options, q[2]) == q[2] &&
         q[1] % k[1] == 0 && q[0] < (std::int64_t{1} << 30) && q[0] / kStep * q[1] < (std::int64_t{1} << 30);
}

constexpr int kLanesOfVector = 8;

// Eight lanes for each query and head.
__global__ void __launch_bounds__(kThreads)
    query_numbers(const __nv_bfloat16* d_o, const __nv_bfloat16* o, const float* log_sum_exp, QueryNumbers* numbers, AttentionSizes sizes) {
  const std::int64_t vector = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) / kLanesOfVector;
  const int lane = static_cast<int>(threadIdx.x) % kLanesOfVector;
  const bool stands = vector < sizes.rows * sizes.sequence * sizes.heads;
  float sum = 0;
  for (std::int64_t d = lane * 8; stands && d < sizes.width; d += kLanesOfVector * 8) {
    const uint4 left = *reinterpret_cast<const uint4*>(d_o + vector * sizes.width + d),
                right = *reinterpret_cast<const uint4*>(o + vector * sizes.width + d);
    __nv_bfloat16 a[8], b[8];
    memcpy(a, &left, sizeof(left));
    memcpy(b, &right, sizeof(right));
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += load(a + i) * load(b + i);
  }
  for (int distance = kLanesOfVector / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, distance);
  if (!stands || lane != 0) return;
  const std::int64_t token = vector / sizes.heads, head = vector % sizes.heads, row = token / sizes.sequence;
  numbers[(row * sizes.heads + head) * sizes.sequence + token % sizes.sequence] = {log_sum_exp[vector] * kLog2E, sum};
}

/// [T, heads, width] as boxes of one head and 64 tokens.
CUtensorMap map_of_heads(const Tensor& x) {
  return map_of_lines(component, x.data, {x.shape[2], x.shape[0], x.shape[1]}, {x.shape[1] * x.shape[2], x.shape[2]},
                      static_cast<int>(kStep));
}

}  // namespace

std::size_t attention_gradient_scratch_on_hopper(const Shape& q, const Shape& k, DType dtype, AttentionOptions options) {
  return covers(q, k, dtype, options) ? align_up(static_cast<std::size_t>(q[0] * q[1]) * sizeof(QueryNumbers)) : 0;
}

bool attention_input_gradient_on_hopper(const ExecutionContext& context, const Tensor& d_o, const Tensor& q, const Tensor& k,
                                        const Tensor& v, const Tensor& o, const Tensor& log_sum_exp, const Tensor& segments,
                                        AttentionOptions options, const Tensor& dq, const Tensor& dk, const Tensor& dv,
                                        const SegmentRange* ranges, Scratch scratch) {
  if (!covers(q.shape, k.shape, q.dtype, options) ||
      !packs_aligned({d_o.data, q.data, k.data, v.data, o.data, dq.data, dk.data, dv.data, scratch.data()}) ||
      (ranges != nullptr && !packs_aligned({segments.data})) || !hopper_device_of(context, component).usable)
    return false;
  const AttentionSizes sizes = attention_sizes(q.shape, k.shape, options);
  auto* const numbers = reinterpret_cast<QueryNumbers*>(scratch.data());
  launch(context, component, query_numbers, dim3(blocks_of(q.shape[0] * q.shape[1] * kLanesOfVector, kThreads)), dim3(kThreads), 0,
         d_o.as<__nv_bfloat16>(), o.as<__nv_bfloat16>(), log_sum_exp.as<float>(), numbers, sizes);
  const hopper::Backward at{.q = map_of_heads(q),
                            .k = map_of_heads(k),
                            .v = map_of_heads(v),
                            .d_o = map_of_heads(d_o),
                            .q_data = q.as<__nv_bfloat16>(),
                            .k_data = k.as<__nv_bfloat16>(),
                            .d_o_data = d_o.as<__nv_bfloat16>(),
                            .numbers = numbers,
                            .segments = ranges == nullptr ? nullptr : segments.as<std::int32_t>(),
                            .ranges = ranges,
                            .dq = dq.as<__nv_bfloat16>(),
                            .dk = dk.as<__nv_bfloat16>(),
                            .dv = dv.as<__nv_bfloat16>(),
                            .sizes = sizes};
  const bool plain = ranges == nullptr && sizes.causal && sizes.window == sizes.sequence && sizes.chunk == sizes.sequence;
  hopper::enqueue_key_gradients(compute_lane(context), at, plain);
  hopper::enqueue_query_gradients(compute_lane(context), at, plain);
  return true;
}

}  // namespace millrace::kernels::cuda
