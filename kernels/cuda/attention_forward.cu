#include "kernels/cuda/attention_kernels.hpp"
#include "kernels/cuda/attention_tensor_tile.cuh"
#include "kernels/cuda/attention_tile.cuh"
#include "kernels/cuda/dynamic_shared.cuh"

namespace millrace::kernels::cuda {
namespace {

constexpr const char* component = "kernels.attention_forward";

template <class T>
struct Forward {
  AttentionSizes sizes;
  const T *q, *k, *v;
  const std::int32_t* segments;
  const SegmentRange* ranges;
  const float* sinks;  // or null
  T* o;
  float* log_sum_exp;
  bool vectors;
};

// The part of a block: a tile of queries of one head. Late tiles have the most keys, so they come first.
template <int B, bool Equal>
struct QueryTile {
  __device__ explicit QueryTile(const AttentionSizes& sizes)
      : head(blockIdx.x % sizes.heads),
        row(blockIdx.x / sizes.heads % sizes.rows),
        sequence(static_cast<int>(sizes.sequence)),
        first(((sequence + B - 1) / B - 1 - static_cast<int>(blockIdx.x / (sizes.heads * sizes.rows))) * B),
        tokens(sequence - first < B ? sequence - first : B),
        q_stride(sizes.heads * sizes.width),
        k_stride(sizes.kv_heads * sizes.width),
        o_stride(sizes.heads * width_of_values<Equal>(sizes)),
        v_stride(sizes.kv_heads * width_of_values<Equal>(sizes)),
        vector((row * sizes.sequence + first) * sizes.heads + head),
        k_begin(row * sizes.sequence * k_stride + head / (sizes.heads / sizes.kv_heads) * sizes.width),
        v_begin(row * sizes.sequence * v_stride + head / (sizes.heads / sizes.kv_heads) * width_of_values<Equal>(sizes)) {}
  std::int64_t head, row;
  int sequence, first, tokens;
  std::int64_t q_stride, k_stride, o_stride, v_stride;
  std::int64_t vector;            // of the first query
  std::int64_t k_begin, v_begin;  // the row's first key of the head, and its value
};

// Sums are counted in units of exp(maximum - this); a query that has seen no key yet has no sum.
__device__ __forceinline__ float level_of(float maximum) { return maximum == -INFINITY ? 0.0F : maximum; }

// -- fp32 -----------------------------------------------------------------------------------------------------------------------------

template <int P, int B>
constexpr std::size_t forward_shared = sizeof(float) * (2 * tile_floats<P, B> + score_floats<B> + 2 * B);

template <int P, int V, int B, bool Equal>
__global__ void __launch_bounds__(kThreads) forward_tile(Forward<float> at) {
  static_assert(V <= P);  // values take the place of their keys
  constexpr int R = B / kSides;
  const AttentionSizes& sizes = at.sizes;
  const QueryTile<B, Equal> my(sizes);
  const auto width = static_cast<int>(sizes.width), value_width = static_cast<int>(width_of_values<Equal>(sizes));
  const std::int32_t* segments = at.segments + my.row * sizes.sequence;
  const SegmentRange* ranges = at.ranges == nullptr ? nullptr : at.ranges + my.row * ranges_of_row(sizes);

  auto* queries = dynamic_shared<float>();
  float* vectors = queries + tile_floats<P, B>;  // keys, then their values
  float* weights = vectors + tile_floats<P, B>;
  auto* query_segments = reinterpret_cast<std::int32_t*>(weights + score_floats<B>);
  std::int32_t* key_segments = query_segments + B;
  load_tile<P, B>(queries, at.q + my.vector * sizes.width, my.q_stride, my.tokens, width);
  load_segments<B>(query_segments, segments + my.first, my.tokens, sizes.one_segment);
  const SegmentRange query_range = segment_range<B>(ranges, my.first, my.sequence);

  float sums[R][V / kSides] = {}, parts[R] = {}, maxima[R];
  Seen seen[R];
#pragma unroll
  for (int i = 0; i < R; ++i) {
    seen[i] = seen_by(sizes, my.first + tile_row() * R + i);
    maxima[i] = at.sinks == nullptr ? -INFINITY : at.sinks[my.head];
  }
  const int end = seen_by(sizes, my.first + my.tokens - 1).end;
  for (int key = seen_by(sizes, my.first).begin / B * B; key < end; key += B) {
    const int keys = my.sequence - key < B ? my.sequence - key : B;
    const std::int64_t place = my.k_begin + key * my.k_stride;
    const std::int64_t value_place = Equal ? place : my.v_begin + key * my.v_stride;
    if (!may_meet(query_range, segment_range<B>(ranges, key, my.sequence))) continue;
    __syncthreads();
    load_segments<B>(key_segments, segments + key, keys, sizes.one_segment);
    load_tile<P, B>(vectors, at.k + place, my.k_stride, keys, width);
    __syncthreads();
    float scores[R][R];
    dot_products<P, B>(queries, vectors, scores);
#pragma unroll
    for (int i = 0; i < R; ++i) {
      const std::int32_t segment = query_segments[tile_row() * R + i];
      float maximum = maxima[i];
#pragma unroll
      for (int j = 0; j < R; ++j) {
        const int column = tile_column() + kSides * j;
        const bool sees = key + column >= seen[i].begin && key + column < seen[i].end && key_segments[column] == segment;
        scores[i][j] = sees ? capped(sizes, scores[i][j]) : -INFINITY;
        maximum = fmaxf(maximum, scores[i][j]);
      }
      maximum = row_maximum(maximum);
      const float level = level_of(maximum), kept = expf(maxima[i] - level);
      maxima[i] = maximum;
      parts[i] *= kept;
#pragma unroll
      for (int j = 0; j < R; ++j) {
        scores[i][j] = expf(scores[i][j] - level);
        parts[i] += scores[i][j];
      }
#pragma unroll
      for (int c = 0; c < V / kSides; ++c) sums[i][c] *= kept;
    }
    store_scores<B>(weights, scores);
    __syncthreads();
    load_tile<V, B>(vectors, at.v + value_place, my.v_stride, keys, value_width);
    __syncthreads();
    add_products<V, B, false>(weights, vectors, sums);
  }

  float factors[R];
#pragma unroll
  for (int i = 0; i < R; ++i) {
    float sum = row_sum(parts[i]);
    if (at.sinks != nullptr) sum += expf(at.sinks[my.head] - maxima[i]);
    factors[i] = 1 / sum;
    const int token = tile_row() * R + i;
    if (token < my.tokens && tile_column() == 0) at.log_sum_exp[my.vector + token * sizes.heads] = maxima[i] + logf(sum);
  }
  store_vectors<V, B>(at.o + my.vector * width_of_values<Equal>(sizes), my.o_stride, my.tokens, value_width, sums, factors);
}

// -- bf16, on tensor cores ------------------------------------------------------------------------------------------------------------

template <int P, int V, int C>
constexpr std::size_t tensor_forward_shared = (kTensorRows + 2 * C) * sizeof(std::int32_t) +
                                              sizeof(__nv_bfloat16) *
                                                  (tensor_tile<P, kTensorRows> + 2 * tensor_tile<P, C> + 2 * tensor_tile<V, C>);

// C is the number of keys of a tile. The next tile is loaded while the current one is used.
template <int P, int V, int C, bool Equal>
__global__ void __launch_bounds__(kTensorThreads) tensor_forward_tile(Forward<__nv_bfloat16> at) {
  const AttentionSizes& sizes = at.sizes;
  const QueryTile<kTensorRows, Equal> my(sizes);
  const auto width = static_cast<int>(sizes.width), value_width = static_cast<int>(width_of_values<Equal>(sizes));
  const std::int32_t* segments = at.segments + my.row * sizes.sequence;
  const SegmentRange* ranges = at.ranges == nullptr ? nullptr : at.ranges + my.row * ranges_of_row(sizes);

  auto* queries = dynamic_shared<__nv_bfloat16>();
  __nv_bfloat16* key_tiles = queries + tensor_tile<P, kTensorRows>;
  __nv_bfloat16* value_tiles = key_tiles + 2 * tensor_tile<P, C>;
  auto* query_segments = reinterpret_cast<std::int32_t*>(value_tiles + 2 * tensor_tile<V, C>);
  std::int32_t* segment_tiles = query_segments + kTensorRows;
  load_tensor_tile<P, kTensorRows>(queries, at.q + my.vector * sizes.width, my.q_stride, my.tokens, width, at.vectors);
  load_segments<kTensorRows>(query_segments, segments + my.first, my.tokens, sizes.one_segment);
  const SegmentRange query_range = segment_range<kTensorRows>(ranges, my.first, my.sequence);

  float sums[V / 8][4] = {}, parts[2] = {}, maxima[2];
  Seen seen[2];
#pragma unroll
  for (int part = 0; part < 2; ++part) {
    seen[part] = seen_by(sizes, my.first + warp_row() + lane_row() + part * 8);
    maxima[part] = at.sinks == nullptr ? -INFINITY : at.sinks[my.head];
  }
  const Seen first_sees = seen_by(sizes, my.first), last_sees = seen_by(sizes, my.first + my.tokens - 1);
  SegmentRange next_range = query_range;
  const auto next_from = [&](int key) {
    for (; key < last_sees.end; key += C) {
      next_range = segment_range<C>(ranges, key, my.sequence);
      if (may_meet(query_range, next_range)) break;
    }
    return key;
  };
  const auto start_loads = [&](int key, int stage) {
    const int tokens = my.sequence - key < C ? my.sequence - key : C;
    load_tensor_tile<P, C>(key_tiles + stage * tensor_tile<P, C>, at.k + my.k_begin + key * my.k_stride, my.k_stride, tokens, width,
                           at.vectors);
    load_tensor_tile<V, C>(value_tiles + stage * tensor_tile<V, C>, at.v + my.v_begin + key * my.v_stride, my.v_stride, tokens, value_width,
                           at.vectors);
    load_segments<C>(segment_tiles + stage * C, segments + key, tokens, sizes.one_segment);
  };
  int key = next_from(first_sees.begin / C * C);
  start_loads(key, 0);  // a query sees itself, so there is at least one tile
  for (int stage = 0; key < last_sees.end; stage ^= 1) {
    // Every query sees every key, so nothing is masked. Queries past the row's end see none, and their results are not read.
    const bool whole = key >= last_sees.begin && key + C <= first_sees.end && are_one(query_range, next_range);
    const int next = next_from(key + C);
    wait_for_copies();
    __syncthreads();
    if (next < last_sees.end) start_loads(next, stage ^ 1);
    const std::int32_t* key_segments = segment_tiles + stage * C;
    float scores[C / 8][4];
    tensor_dot_products<P, C>(queries, key_tiles + stage * tensor_tile<P, C>, scores);
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      const std::int32_t segment = query_segments[warp_row() + lane_row() + part * 8];
      float maximum = maxima[part];
#pragma unroll
      for (int n = 0; n < C / 8; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int column = n * 8 + lane_column() + e;
          float& score = scores[n][part * 2 + e];
          const bool sees = whole || (key + column >= seen[part].begin && key + column < seen[part].end && key_segments[column] == segment);
          score = sees ? capped(sizes, score) : -INFINITY;
          maximum = fmaxf(maximum, score);
        }
      maximum = lanes_maximum(maximum);
      const float level = level_of(maximum), kept = expf(maxima[part] - level);
      maxima[part] = maximum;
      parts[part] *= kept;
#pragma unroll
      for (int n = 0; n < C / 8; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& score = scores[n][part * 2 + e];
          score = expf(score - level);
          parts[part] += score;
        }
#pragma unroll
      for (int n = 0; n < V / 8; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) sums[n][part * 2 + e] *= kept;
    }
    add_tensor_products<V, C>(scores, value_tiles + stage * tensor_tile<V, C>, sums);
    key = next;
  }

  float factors[2];
#pragma unroll
  for (int part = 0; part < 2; ++part) {
    float sum = lanes_sum(parts[part]);
    if (at.sinks != nullptr) sum += expf(at.sinks[my.head] - maxima[part]);
    factors[part] = 1 / sum;
    const int token = warp_row() + lane_row() + part * 8;
    if (token < my.tokens && lane_column() == 0) at.log_sum_exp[my.vector + token * sizes.heads] = maxima[part] + logf(sum);
  }
  store_tensor_rows<V>(at.o + my.vector * width_of_values<Equal>(sizes), my.o_stride, my.tokens, value_width, sums, factors[0], factors[1]);
}

void forward(const ExecutionContext& context, const Forward<float>& at) {
  with_padded<64, 32>(at.sizes, [&]<int P, int V, int B, bool Equal>() {
    const dim3 grid(blocks_of(at.sizes.sequence, B) * static_cast<unsigned>(at.sizes.heads * at.sizes.rows));
    launch(context, component, forward_tile<P, V, B, Equal>, grid, dim3(kThreads), forward_shared<P, B>, at);
  });
}

void forward(const ExecutionContext& context, const Forward<__nv_bfloat16>& at) {
  with_padded<64, 16>(at.sizes, [&]<int P, int V, int C, bool Equal>() {
    const dim3 grid(blocks_of(at.sizes.sequence, kTensorRows) * static_cast<unsigned>(at.sizes.heads * at.sizes.rows));
    launch(context, component, tensor_forward_tile<P, V, C, Equal>, grid, dim3(kTensorThreads), tensor_forward_shared<P, V, C>, at);
  });
}

}  // namespace

void tiled_attention_forward(const ExecutionContext& context, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& segments,
                             AttentionOptions options, const Tensor& o, const Tensor& log_sum_exp, const SegmentRange* ranges,
                             const Tensor* sinks) {
  with_type(q.dtype, [&](auto type) {
    using T = decltype(type);
    const AttentionSizes sizes = attention_sizes(q.shape, k.shape, options);
    forward(context, Forward<T>{sizes, q.as<T>(), k.as<T>(), v.as<T>(), segments.as<std::int32_t>(), ranges,
                                sinks == nullptr ? nullptr : sinks->as<float>(), o.as<T>(), log_sum_exp.as<float>(),
                                eight_at_a_time(sizes, {q.data, k.data, v.data})});
  });
}

}  // namespace millrace::kernels::cuda
