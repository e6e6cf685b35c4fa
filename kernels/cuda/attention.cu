#include "kernels/attention.hpp"

#include <algorithm>

#include "kernels/base/buffer.hpp"
#include "kernels/base/check.hpp"
#include "kernels/cuda/attention_backward_hopper.hpp"
#include "kernels/cuda/attention_kernels.hpp"
#include "kernels/cuda/attention_of_blocks.hpp"
#include "kernels/cuda/fused_attention.hpp"
#include "kernels/cuda/launch.cuh"

namespace millrace::kernels::cuda {
namespace {

void check_head_size(const char* component, const Shape& q, AttentionOptions options) {
  const std::int64_t width = std::max(q[2], value_width(options, q[2]));
  MILLRACE_CHECK(width <= kMaximumHeadSize, ExitCode::config, component, "head size {} on a GPU, expected {} or less", width,
                 kMaximumHeadSize);
}

// Scratch: d_o · o of every query and head, then the ranges of segments.
std::size_t delta_bytes(const Shape& q) { return align_up(static_cast<std::size_t>(q[0] * q[1]) * sizeof(float)); }

std::size_t tiled_bytes(const Shape& q, const AttentionSizes& sizes) {
  return delta_bytes(q) + align_up(static_cast<std::size_t>(sizes.rows * ranges_of_row(sizes)) * sizeof(SegmentRange));
}

// One warp per range.
__global__ void __launch_bounds__(kThreads) segment_ranges(const std::int32_t* segments, SegmentRange* ranges, AttentionSizes sizes) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32, of_row = ranges_of_row(sizes);
  if (index >= sizes.rows * of_row) return;  // exits as a whole warp
  const std::int64_t first = index % of_row * kRangeTokens, place = first + threadIdx.x % 32;
  const std::int32_t segment = segments[index / of_row * sizes.sequence + (place < sizes.sequence ? place : first)];
  SegmentRange range = {segment, segment};
  for (int distance = 16; distance > 0; distance /= 2) {
    const std::int32_t low = __shfl_xor_sync(0xffffffffU, range.low, distance), high = __shfl_xor_sync(0xffffffffU, range.high, distance);
    range.low = low < range.low ? low : range.low;
    range.high = high > range.high ? high : range.high;
  }
  if (threadIdx.x % 32 == 0) ranges[index] = range;
}
static_assert(kRangeTokens == 32);

const SegmentRange* find_ranges(const ExecutionContext& context, const char* component, const Tensor& q, const Tensor& k,
                                const Tensor& segments, AttentionOptions options, Scratch scratch) {
  if (options.one_segment) return nullptr;
  const AttentionSizes sizes = attention_sizes(q.shape, k.shape, options);
  auto* ranges = reinterpret_cast<SegmentRange*>(scratch.data() + delta_bytes(q.shape));
  launch(context, component, segment_ranges, dim3(blocks_of(sizes.rows * ranges_of_row(sizes), kThreads / 32)), dim3(kThreads), 0,
         segments.as<std::int32_t>(), ranges, sizes);
  return ranges;
}

struct TransposeRows {
  const float* from;
  float* to;
  std::int64_t rows, columns;
  __device__ void operator()(std::int64_t i) const {
    const std::int64_t row = i % rows, column = i / rows % columns, batch = i / rows / columns;
    to[i] = from[(batch * rows + row) * columns + column];
  }
};

constexpr int kSinkThreads = 1024;

// One head per block: a warp takes every 32nd token, and their sums are added in order.
template <class T>
__global__ void __launch_bounds__(kSinkThreads) sink_gradient(const T* d_o, const T* o, const float* log_sum_exp, const float* sinks,
                                                              float* d_sinks, std::int64_t tokens, std::int64_t heads, int width) {
  const std::int64_t head = blockIdx.x;
  double sum = 0;
  for (std::int64_t token = threadIdx.x / 32; token < tokens; token += kSinkThreads / 32) {
    const std::int64_t vector = token * heads + head;
    float dot = 0;
    for (int d = static_cast<int>(threadIdx.x) % 32; d < width; d += 32)
      dot += load(d_o + vector * width + d) * load(o + vector * width + d);
    sum += static_cast<double>(expf(sinks[head] - log_sum_exp[vector]) * dot);
  }
  sum = block_sum<kSinkThreads>(sum);
  if (threadIdx.x == 0) d_sinks[head] -= static_cast<float>(sum);
}

void attention_forward(const ExecutionContext& context, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& segments,
                       AttentionOptions options, const Tensor& o, const Tensor& log_sum_exp, Scratch scratch, const Tensor* sinks,
                       const Tensor* choice) {
  constexpr const char* component = "kernels.attention_forward";
  check_head_size(component, q.shape, options);
  if (q.shape[0] == 0) return;
  if (choice != nullptr) return attention_of_blocks_forward(context, q, k, v, segments, options, o, log_sum_exp, sinks, *choice);
  if (fused_attention_forward(context, q, k, v, options, o, log_sum_exp, scratch, sinks)) return;
  const SegmentRange* ranges = find_ranges(context, component, q, k, segments, options, scratch);
  tiled_attention_forward(context, q, k, v, segments, options, o, log_sum_exp, ranges, sinks);
}

void attention_input_gradient(const ExecutionContext& context, const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v,
                              const Tensor& o, const Tensor& log_sum_exp, const Tensor& segments, AttentionOptions options,
                              const Tensor& dq, const Tensor& dk, const Tensor& dv, Scratch scratch, const Tensor* choice) {
  constexpr const char* component = "kernels.attention_input_gradient";
  check_head_size(component, q.shape, options);
  if (q.shape[0] == 0) return;
  if (choice != nullptr)
    return attention_of_blocks_input_gradient(context, d_o, q, k, v, o, log_sum_exp, segments, options, dq, dk, dv, *choice,
                                              reinterpret_cast<float*>(scratch.data()));
  const SegmentRange* ranges = find_ranges(context, component, q, k, segments, options, scratch);
  if (attention_input_gradient_on_hopper(context, d_o, q, k, v, o, log_sum_exp, segments, options, dq, dk, dv, ranges,
                                         scratch.subspan(tiled_bytes(q.shape, attention_sizes(q.shape, k.shape, options)))))
    return;
  if (fused_attention_input_gradient(context, d_o, q, k, v, o, log_sum_exp, options, dq, dk, dv, scratch)) return;
  tiled_attention_input_gradient(context, d_o, q, k, v, o, log_sum_exp, segments, options, dq, dk, dv, ranges,
                                 reinterpret_cast<float*>(scratch.data()));
}

void attention_sink_gradient(const ExecutionContext& context, const Tensor& d_o, const Tensor& o, const Tensor& log_sum_exp,
                             const Tensor& sinks, const Tensor& d_sinks) {
  if (o.shape[1] == 0) return;
  with_type(o.dtype, [&](auto type) {
    using T = decltype(type);
    launch(context, "kernels.attention_sink_gradient", sink_gradient<T>, dim3(static_cast<unsigned>(o.shape[1])), dim3(kSinkThreads), 0,
           d_o.as<T>(), o.as<T>(), log_sum_exp.as<float>(), sinks.as<float>(), d_sinks.as<float>(), o.shape[0], o.shape[1],
           static_cast<int>(o.shape[2]));
  });
}

std::size_t attention_scratch_bytes(const Shape& q, const Shape& k, DType dtype, AttentionOptions options, const Processor& /*processor*/) {
  check_head_size("kernels.attention_scratch_bytes", q, options);
  const std::size_t own = tiled_bytes(q, attention_sizes(q, k, options)) + attention_gradient_scratch_on_hopper(q, k, dtype, options);
  return std::max(own, fused_attention_scratch_bytes(q, k, dtype, options));
}

const InTable in_table[] = {
    {Backend::cuda, table::attention_forward, attention_forward},
    {Backend::cuda, table::attention_input_gradient, attention_input_gradient},
    {Backend::cuda, table::attention_sink_gradient, attention_sink_gradient},
    {Backend::cuda, table::attention_scratch_bytes, attention_scratch_bytes},
};

}  // namespace

void transpose_rows(const ExecutionContext& context, const float* from, float* to, std::int64_t batches, std::int64_t rows,
                    std::int64_t columns) {
  for_each(context, "kernels.attention", batches * rows * columns, TransposeRows{from, to, rows, columns});
}

}  // namespace millrace::kernels::cuda
