#pragma once

#include <cstdint>

#include "kernels/attention.hpp"

/// Tiled attention by our own kernels: any two head sizes up to kMaximumHeadSize, every option. kernels/cuda/attention.cu chooses
/// between these kernels and cuDNN's.
namespace millrace::kernels::cuda {

inline constexpr std::int64_t kMaximumHeadSize = 256;

/// Sizes and options of one call. `window` and `chunk` are never 0: without a limit they are the row's length.
struct AttentionSizes {
  std::int64_t rows, sequence, heads, kv_heads;
  std::int64_t width, value_width;  // of a head of q and k, and of one of v and o
  std::int64_t window, chunk;
  float scale, soft_cap;
  bool causal, one_segment;
};

[[nodiscard]] inline AttentionSizes attention_sizes(const Shape& q, const Shape& k, AttentionOptions options) {
  const std::int64_t sequence = options.sequence;
  return {.rows = q[0] / sequence,
          .sequence = sequence,
          .heads = q[1],
          .kv_heads = k[1],
          .width = q[2],
          .value_width = value_width(options, q[2]),
          .window = options.window > 0 && options.window < sequence ? options.window : sequence,
          .chunk = options.chunk > 0 && options.chunk < sequence ? options.chunk : sequence,
          .scale = options.scale,
          .soft_cap = options.soft_cap,
          .causal = options.causal,
          .one_segment = options.one_segment};
}

/// The smallest and the largest segment index among kRangeTokens consecutive tokens (fewer at the row's end). A tile of queries
/// and keys whose ranges do not overlap is skipped.
struct SegmentRange {
  std::int32_t low, high;
};
inline constexpr std::int64_t kRangeTokens = 32;
[[nodiscard]] constexpr std::int64_t ranges_of_row(const AttentionSizes& sizes) {
  return (sizes.sequence + kRangeTokens - 1) / kRangeTokens;
}

/// `ranges`: [rows, ranges_of_row]; null with one_segment.
void tiled_attention_forward(const ExecutionContext& context, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& segments,
                             AttentionOptions options, const Tensor& o, const Tensor& log_sum_exp, const SegmentRange* ranges,
                             const Tensor* sinks);

/// `delta`: f32 [T, H], scratch.
void tiled_attention_input_gradient(const ExecutionContext& context, const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor& o, const Tensor& log_sum_exp, const Tensor& segments, AttentionOptions options,
                                    const Tensor& dq, const Tensor& dk, const Tensor& dv, const SegmentRange* ranges, float* delta);

/// to[b, c, r] = from[b, r, c].
void transpose_rows(const ExecutionContext& context, const float* from, float* to, std::int64_t batches, std::int64_t rows,
                    std::int64_t columns);

}  // namespace millrace::kernels::cuda
