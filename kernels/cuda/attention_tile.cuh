#pragma once

#include <cstdint>

#include "kernels/cuda/attention_kernels.hpp"
#include "kernels/cuda/launch.cuh"

/// Code that the tiled attention kernels share, and tiles of fp32. A block of 256 threads is arranged as 16 rows of 16. Tiles
/// have B tokens; head vectors of queries and keys are padded with zeros to P numbers and those of values and results to V, plus four that
/// avoid bank conflicts between rows. In a tile of scores a thread holds rows row()·B/16 + i and columns column() + 16·j; in a tile of
/// vectors the same rows, and numbers 64·(c / 4) + 4·column() + c % 4.
namespace millrace::kernels::cuda {

inline constexpr int kSides = 16;

__device__ __forceinline__ int tile_row() { return static_cast<int>(threadIdx.x) / kSides; }
__device__ __forceinline__ int tile_column() { return static_cast<int>(threadIdx.x) % kSides; }

template <int P>
constexpr int vector_stride = P + 4;
template <int B>
constexpr int score_stride = B + 4;
template <int P, int B>
constexpr int tile_floats = (P + 4) * B;
template <int B>
constexpr int score_floats = (B + 4) * B;

struct alignas(16) FourFloats {
  float x[4];
};
__device__ __forceinline__ FourFloats four(const float* x) { return *reinterpret_cast<const FourFloats*>(x); }

/// Loads `tokens` head vectors of `width` numbers; the rest are zeros. `x` is the first vector; the same head's vector of the
/// next token is `stride` further.
template <int P, int B>
__device__ void load_tile(float* tile, const float* x, std::int64_t stride, int tokens, int width) {
  for (int i = static_cast<int>(threadIdx.x); i < B * P; i += kThreads) {
    const int token = i / P, d = i % P;
    tile[token * vector_stride<P> + d] = token < tokens && d < width ? x[token * stride + d] : 0.0F;
  }
}

/// Loads the segments of `tokens` tokens; positions after them get the first one's segment.
template <int B>
__device__ void load_segments(std::int32_t* tile, const std::int32_t* segments, int tokens, bool one_segment) {
  const auto i = static_cast<int>(threadIdx.x);  // a block has at least as many threads as a tile has tokens
  if (i < B) tile[i] = one_segment ? 0 : segments[i < tokens ? i : 0];
}

/// Range of the segments of the B tokens from index `place` of a row on, from the row's ranges; with null ranges, every row is
/// one segment.
template <int B>
__device__ __forceinline__ SegmentRange segment_range(const SegmentRange* ranges, int place, int sequence) {
  if (ranges == nullptr) return {0, 0};
  SegmentRange range = ranges[place / kRangeTokens];
#pragma unroll
  for (int i = kRangeTokens; i < B; i += kRangeTokens) {
    if (place + i >= sequence) break;
    const SegmentRange more = ranges[(place + i) / kRangeTokens];
    range.low = more.low < range.low ? more.low : range.low;
    range.high = more.high > range.high ? more.high : range.high;
  }
  return range;
}
__device__ __forceinline__ bool may_meet(SegmentRange a, SegmentRange b) { return a.low <= b.high && b.low <= a.high; }
__device__ __forceinline__ bool are_one(SegmentRange a, SegmentRange b) { return a.low == b.high && b.low == a.high && a.low == b.low; }

/// The keys that a query at this index of its row may see, without regard to segments: [begin, end). None past the row's end.
struct Seen {
  int begin, end;
};
__device__ __forceinline__ Seen seen_by(const AttentionSizes& sizes, int query) {
  const int sequence = static_cast<int>(sizes.sequence);
  if (query >= sequence) return {0, 0};
  const auto window = static_cast<int>(sizes.window), chunk = static_cast<int>(sizes.chunk);
  const int chunk_begin = query / chunk * chunk, window_begin = query + 1 - window;
  const int begin = window_begin > chunk_begin ? window_begin : chunk_begin;
  if (sizes.causal) return {begin, query + 1};
  // Window and chunk are at most the row's length, so that no sum overflows.
  const int limit = window < chunk_begin + chunk - query ? query + window : chunk_begin + chunk;
  return {begin, limit < sequence ? limit : sequence};
}

/// The queries that may see some key of [first, last]: [begin, end).
__device__ __forceinline__ Seen seeing(const AttentionSizes& sizes, int first, int last) {
  const std::int64_t sequence = sizes.sequence;
  std::int64_t end = last + sizes.window;
  const std::int64_t chunk_end = (last / sizes.chunk + 1) * sizes.chunk;
  end = end < chunk_end ? end : chunk_end;
  // Later keys are seen from as far away as earlier ones.
  const int begin = sizes.causal ? first : seen_by(sizes, first).begin;
  return {begin, static_cast<int>(end < sequence ? end : sequence)};
}

__device__ __forceinline__ float capped(const AttentionSizes& sizes, float product) {
  const float score = product * sizes.scale;
  return sizes.soft_cap > 0 ? sizes.soft_cap * tanhf(score / sizes.soft_cap) : score;
}
/// Derivative of the cap, from the capped score.
__device__ __forceinline__ float cap_gradient(const AttentionSizes& sizes, float score) {
  if (!(sizes.soft_cap > 0)) return sizes.scale;
  const float share = score / sizes.soft_cap;
  return (1 - share * share) * sizes.scale;
}

/// products[i][j] = a's row · b's column, both tiles of vectors.
template <int P, int B>
__device__ __forceinline__ void dot_products(const float* a, const float* b, float (&products)[B / kSides][B / kSides]) {
  constexpr int R = B / kSides;
  const float* a_rows = a + tile_row() * R * vector_stride<P>;
  const float* b_rows = b + tile_column() * vector_stride<P>;
#pragma unroll
  for (int i = 0; i < R; ++i)
#pragma unroll
    for (int j = 0; j < R; ++j) products[i][j] = 0;
#pragma unroll 4
  for (int d = 0; d < P; d += 4) {
    FourFloats x[R], y[R];
#pragma unroll
    for (int i = 0; i < R; ++i) x[i] = four(a_rows + i * vector_stride<P> + d);
#pragma unroll
    for (int j = 0; j < R; ++j) y[j] = four(b_rows + j * kSides * vector_stride<P> + d);
#pragma unroll
    for (int i = 0; i < R; ++i)
#pragma unroll
      for (int j = 0; j < R; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) products[i][j] += x[i].x[e] * y[j].x[e];
  }
}

/// The part of a tile of scores that a thread holds.
template <int B>
__device__ __forceinline__ void store_scores(float* tile, const float (&scores)[B / kSides][B / kSides]) {
  constexpr int R = B / kSides;
#pragma unroll
  for (int i = 0; i < R; ++i)
#pragma unroll
    for (int j = 0; j < R; ++j) tile[(tile_row() * R + i) * score_stride<B> + tile_column() + kSides * j] = scores[i][j];
}

/// sums += scores · vectors or, with `Turned`, scoresᵀ · vectors.
template <int P, int B, bool Turned>
__device__ __forceinline__ void add_products(const float* scores, const float* vectors, float (&sums)[B / kSides][P / kSides]) {
  constexpr int R = B / kSides;
#pragma unroll 4
  for (int u = 0; u < B; ++u) {
    float p[R];
#pragma unroll
    for (int i = 0; i < R; ++i) {
      const int row = tile_row() * R + i;
      p[i] = Turned ? scores[u * score_stride<B> + row] : scores[row * score_stride<B> + u];
    }
#pragma unroll
    for (int c = 0; c < P / kSides; c += 4) {
      const FourFloats x = four(vectors + u * vector_stride<P> + c * kSides + tile_column() * 4);
#pragma unroll
      for (int i = 0; i < R; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[i][c + e] += p[i] * x.x[e];
    }
  }
}

/// Writes a thread's part of a tile of sums, row i times factors[i], as head vectors to memory.
template <int P, int B>
__device__ __forceinline__ void store_vectors(float* y, std::int64_t stride, int tokens, int width,
                                              const float (&sums)[B / kSides][P / kSides], const float (&factors)[B / kSides]) {
  constexpr int R = B / kSides;
#pragma unroll
  for (int i = 0; i < R; ++i) {
    const int token = tile_row() * R + i;
    if (token >= tokens) continue;
#pragma unroll
    for (int c = 0; c < P / kSides; ++c) {
      const int d = c / 4 * 4 * kSides + tile_column() * 4 + c % 4;
      if (d < width) y[token * stride + d] = sums[i][c] * factors[i];
    }
  }
}

/// Sum over the threads of one row, returned to all of them.
__device__ __forceinline__ float row_sum(float x) {
  for (int distance = kSides / 2; distance > 0; distance /= 2) x += __shfl_xor_sync(0xffffffffU, x, distance);
  return x;
}
__device__ __forceinline__ float row_maximum(float x) {
  for (int distance = kSides / 2; distance > 0; distance /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffU, x, distance));
  return x;
}

/// Dv; a kernel for one width of both has no second number for it.
template <bool Equal>
__device__ __forceinline__ std::int64_t width_of_values(const AttentionSizes& sizes) {
  return Equal ? sizes.width : sizes.value_width;
}

/// Calls body.template operator()<P, V, B, Equal>() with the padded head sizes P and V that hold a query and a value, and the number B of
/// tokens for which a tile has room. Heads of one size (Equal) have 64 for the smallest, Large for the next, Largest for the largest.
/// Others are padded to those of multi-head latent attention, 192 and 128, with room for 32, or to the largest.
template <int Large, int Largest, class Body>
void with_padded(const AttentionSizes& sizes, Body&& body) {
  if (sizes.width == sizes.value_width) {
    if (sizes.width <= 64)
      body.template operator()<64, 64, 64, true>();
    else if (sizes.width <= 128)
      body.template operator()<128, 128, Large, true>();
    else
      body.template operator()<256, 256, Largest, true>();
  } else if (sizes.width <= 192 && sizes.value_width <= 128) {
    body.template operator()<192, 128, 32, false>();
  } else {
    body.template operator()<256, 256, Largest, false>();
  }
}

}  // namespace millrace::kernels::cuda
