#include "kernels/cuda/attention_kernels.hpp"
#include "kernels/cuda/attention_tensor_tile.cuh"
#include "kernels/cuda/attention_tile.cuh"
#include "kernels/cuda/dynamic_shared.cuh"

namespace millrace::kernels::cuda {
namespace {

constexpr const char* component = "kernels.attention_input_gradient";

template <class T>
struct Backward {
  AttentionSizes sizes;
  const T *d_o, *q, *k, *v;
  const float *log_sum_exp, *delta;
  const std::int32_t* segments;
  const SegmentRange* ranges;
  T *dq, *dk, *dv;
  bool vectors;
};

// The part of a block of key_gradients: a tile of keys of one key/value head. Early tiles have the most queries, so they come
// first.
template <int B, bool Equal>
struct KeyTile {
  __device__ explicit KeyTile(const AttentionSizes& sizes)
      : kv_head(blockIdx.x % sizes.kv_heads),
        row(blockIdx.x / sizes.kv_heads % sizes.rows),
        row_begin(row * sizes.sequence),
        sequence(static_cast<int>(sizes.sequence)),
        first(static_cast<int>(blockIdx.x / (sizes.kv_heads * sizes.rows)) * B),
        tokens(sequence - first < B ? sequence - first : B),
        group(sizes.heads / sizes.kv_heads),
        q_stride(sizes.heads * sizes.width),
        k_stride(sizes.kv_heads * sizes.width),
        o_stride(sizes.heads * width_of_values<Equal>(sizes)),
        v_stride(sizes.kv_heads * width_of_values<Equal>(sizes)),
        k_begin((row_begin + first) * k_stride + kv_head * sizes.width),
        v_begin((row_begin + first) * v_stride + kv_head * width_of_values<Equal>(sizes)) {}
  std::int64_t kv_head, row, row_begin;
  int sequence, first, tokens;
  std::int64_t group, q_stride, k_stride, o_stride, v_stride;
  std::int64_t k_begin, v_begin;  // the first key of the tile, and its value
};

// The part of a block of query_gradients: a tile of queries of one head. Late tiles have the most keys, so they come first.
template <int B, bool Equal>
struct QueryTile {
  __device__ explicit QueryTile(const AttentionSizes& sizes)
      : head(blockIdx.x % sizes.heads),
        row(blockIdx.x / sizes.heads % sizes.rows),
        row_begin(row * sizes.sequence),
        sequence(static_cast<int>(sizes.sequence)),
        first(((sequence + B - 1) / B - 1 - static_cast<int>(blockIdx.x / (sizes.heads * sizes.rows))) * B),
        tokens(sequence - first < B ? sequence - first : B),
        q_stride(sizes.heads * sizes.width),
        k_stride(sizes.kv_heads * sizes.width),
        o_stride(sizes.heads * width_of_values<Equal>(sizes)),
        v_stride(sizes.kv_heads * width_of_values<Equal>(sizes)),
        vector((row_begin + first) * sizes.heads + head),
        k_begin(row_begin * k_stride + head / (sizes.heads / sizes.kv_heads) * sizes.width),
        v_begin(row_begin * v_stride + head / (sizes.heads / sizes.kv_heads) * width_of_values<Equal>(sizes)) {}
  std::int64_t head, row, row_begin;
  int sequence, first, tokens;
  std::int64_t q_stride, k_stride, o_stride, v_stride;
  std::int64_t vector;            // of the first query
  std::int64_t k_begin, v_begin;  // the row's first key of the head, and its value
};

// delta[vector] = d_o · o, one warp for each.
template <class T>
__global__ void __launch_bounds__(kThreads) products_of_outputs(const T* d_o, const T* o, float* delta, std::int64_t vectors, int width) {
  const std::int64_t vector = static_cast<std::int64_t>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
  float sum = 0;
  if (vector < vectors)
    for (int d = static_cast<int>(threadIdx.x) % 32; d < width; d += 32)
      sum += load(d_o + vector * width + d) * load(o + vector * width + d);
  sum = warp_sum(sum);
  if (vector < vectors && threadIdx.x % 32 == 0) delta[vector] = sum;
}

// -- fp32 ---------------------------------------------------------------------------------------------------------------------------------

template <int P, int V, int B>
constexpr std::size_t backward_shared = sizeof(float) * (2 * tile_floats<P, B> + 2 * tile_floats<V, B> + score_floats<B> + 2 * B);

template <int P, int V, int B>
struct Tiles {
  __device__ Tiles()
      : queries(dynamic_shared<float>()),
        d_outputs(queries + tile_floats<P, B>),
        keys(d_outputs + tile_floats<V, B>),
        values(keys + tile_floats<P, B>),
        weights(values + tile_floats<V, B>),
        query_segments(reinterpret_cast<std::int32_t*>(weights + score_floats<B>)),
        key_segments(query_segments + B) {}
  float *queries, *d_outputs, *keys, *values, *weights;
  std::int32_t *query_segments, *key_segments;
};

// Probabilities of a tile of queries and a tile of keys, and the gradients of their products q · k. `query` and `key` are the
// tiles' first indices; `vector` is the first query's index in log_sum_exp.
template <int P, int V, int B>
__device__ __forceinline__ void tile_gradients(const Backward<float>& at, const Tiles<P, V, B>& tiles, int query, int key,
                                               std::int64_t vector, float (&probabilities)[B / kSides][B / kSides],
                                               float (&gradients)[B / kSides][B / kSides]) {
  constexpr int R = B / kSides;
  const AttentionSizes& sizes = at.sizes;
  dot_products<P, B>(tiles.queries, tiles.keys, probabilities);
  dot_products<V, B>(tiles.d_outputs, tiles.values, gradients);
#pragma unroll
  for (int i = 0; i < R; ++i) {
    const int token = tile_row() * R + i;
    const Seen seen = seen_by(sizes, query + token);
    const bool stands = query + token < static_cast<int>(sizes.sequence);
    const float log_sum_exp = stands ? at.log_sum_exp[vector + token * sizes.heads] : 0.0F;
    const float delta = stands ? at.delta[vector + token * sizes.heads] : 0.0F;
    const std::int32_t segment = tiles.query_segments[token];
#pragma unroll
    for (int j = 0; j < R; ++j) {
      const int column = tile_column() + kSides * j;
      const bool sees = key + column >= seen.begin && key + column < seen.end && tiles.key_segments[column] == segment;
      const float score = capped(sizes, probabilities[i][j]);
      const float p = expf(score - log_sum_exp);
      probabilities[i][j] = sees ? p : 0.0F;
      gradients[i][j] = sees ? p * (gradients[i][j] - delta) * cap_gradient(sizes, score) : 0.0F;
    }
  }
}

template <int B>
__device__ __forceinline__ void fill_ones(float (&ones)[B / kSides]) {
#pragma unroll
  for (int i = 0; i < B / kSides; ++i) ones[i] = 1;
}

// Query heads of the group in order, and for each its tiles of queries in order.
template <int P, int V, int B, bool Equal>
__global__ void __launch_bounds__(kThreads) key_gradients(Backward<float> at) {
  constexpr int R = B / kSides;
  const AttentionSizes& sizes = at.sizes;
  const KeyTile<B, Equal> my(sizes);
  const auto width = static_cast<int>(sizes.width), value_width = static_cast<int>(width_of_values<Equal>(sizes));
  const std::int32_t* segments = at.segments + my.row_begin;
  const SegmentRange* ranges = at.ranges == nullptr ? nullptr : at.ranges + my.row * ranges_of_row(sizes);
  const Tiles<P, V, B> tiles;
  load_tile<P, B>(tiles.keys, at.k + my.k_begin, my.k_stride, my.tokens, width);
  load_tile<V, B>(tiles.values, at.v + my.v_begin, my.v_stride, my.tokens, value_width);
  load_segments<B>(tiles.key_segments, segments + my.first, my.tokens, sizes.one_segment);
  const SegmentRange key_range = segment_range<B>(ranges, my.first, my.sequence);

  float dk[R][P / kSides] = {}, dv[R][V / kSides] = {};
  const Seen queries = seeing(sizes, my.first, my.first + my.tokens - 1);
  for (std::int64_t head = my.kv_head * my.group; head < (my.kv_head + 1) * my.group; ++head)
    for (int query = queries.begin / B * B; query < queries.end; query += B) {
      const int tokens = my.sequence - query < B ? my.sequence - query : B;
      const std::int64_t vector = (my.row_begin + query) * sizes.heads + head;
      if (!may_meet(key_range, segment_range<B>(ranges, query, my.sequence))) continue;
      __syncthreads();
      load_segments<B>(tiles.query_segments, segments + query, tokens, sizes.one_segment);
      load_tile<P, B>(tiles.queries, at.q + vector * sizes.width, my.q_stride, tokens, width);
      load_tile<V, B>(tiles.d_outputs, at.d_o + vector * width_of_values<Equal>(sizes), my.o_stride, tokens, value_width);
      __syncthreads();
      float probabilities[R][R], gradients[R][R];
      tile_gradients<P, V, B>(at, tiles, query, my.first, vector, probabilities, gradients);
      store_scores<B>(tiles.weights, probabilities);
      __syncthreads();
      add_products<V, B, true>(tiles.weights, tiles.d_outputs, dv);
      __syncthreads();
      store_scores<B>(tiles.weights, gradients);
      __syncthreads();
      add_products<P, B, true>(tiles.weights, tiles.queries, dk);
    }
  float ones[R];
  fill_ones<B>(ones);
  store_vectors<P, B>(at.dk + my.k_begin, my.k_stride, my.tokens, width, dk, ones);
  store_vectors<V, B>(at.dv + my.v_begin, my.v_stride, my.tokens, value_width, dv, ones);
}

template <int P, int V, int B, bool Equal>
__global__ void __launch_bounds__(kThreads) query_gradients(Backward<float> at) {
  constexpr int R = B / kSides;
  const AttentionSizes& sizes = at.sizes;
  const QueryTile<B, Equal> my(sizes);
  const auto width = static_cast<int>(sizes.width), value_width = static_cast<int>(width_of_values<Equal>(sizes));
  const std::int32_t* segments = at.segments + my.row_begin;
  const SegmentRange* ranges = at.ranges == nullptr ? nullptr : at.ranges + my.row * ranges_of_row(sizes);
  const Tiles<P, V, B> tiles;
  load_tile<P, B>(tiles.queries, at.q + my.vector * sizes.width, my.q_stride, my.tokens, width);
  load_tile<V, B>(tiles.d_outputs, at.d_o + my.vector * width_of_values<Equal>(sizes), my.o_stride, my.tokens, value_width);
  load_segments<B>(tiles.query_segments, segments + my.first, my.tokens, sizes.one_segment);
  const SegmentRange query_range = segment_range<B>(ranges, my.first, my.sequence);

  float dq[R][P / kSides] = {};
  const int end = seen_by(sizes, my.first + my.tokens - 1).end;
  for (int key = seen_by(sizes, my.first).begin / B * B; key < end; key += B) {
    const int tokens = my.sequence - key < B ? my.sequence - key : B;
    const std::int64_t place = my.k_begin + key * my.k_stride;
    const std::int64_t value_place = Equal ? place : my.v_begin + key * my.v_stride;
    if (!may_meet(query_range, segment_range<B>(ranges, key, my.sequence))) continue;
    __syncthreads();
    load_segments<B>(tiles.key_segments, segments + key, tokens, sizes.one_segment);
    load_tile<P, B>(tiles.keys, at.k + place, my.k_stride, tokens, width);
    load_tile<V, B>(tiles.values, at.v + value_place, my.v_stride, tokens, value_width);
    __syncthreads();
    float probabilities[R][R], gradients[R][R];
    tile_gradients<P, V, B>(at, tiles, my.first, key, my.vector, probabilities, gradients);
    store_scores<B>(tiles.weights, gradients);
    __syncthreads();
    add_products<P, B, false>(tiles.weights, tiles.keys, dq);
  }
  float ones[R];
  fill_ones<B>(ones);
  store_vectors<P, B>(at.dq + my.vector * sizes.width, my.q_stride, my.tokens, width, dq, ones);
}

// -- bf16, on tensor cores
// ---------------------------------------------------------------------------------------------------------------- A block keeps
// one tile of rows (keys for key_gradients, queries for query_gradients) and loops over tiles of C columns of the other kind. The
// next tile is loaded while the current one is used.

// Data of a query that a tile of keys needs.
struct alignas(16) QueryFacts {
  Seen seen;
  float log_sum_exp, delta;
};

template <int P, int V, int C>
constexpr std::size_t tensor_backward_shared = 2 * C * sizeof(QueryFacts) + (kTensorRows + 2 * C) * sizeof(std::int32_t) +
                                               sizeof(__nv_bfloat16) * (tensor_tile<P, kTensorRows> + tensor_tile<V, kTensorRows> +
                                                                        2 * tensor_tile<P, C> + 2 * tensor_tile<V, C>);

template <int P, int V, int C>
struct TensorTiles {
  __device__ TensorTiles()
      : rows(dynamic_shared<__nv_bfloat16>()),
        row_partners(rows + tensor_tile<P, kTensorRows>),
        first_columns(row_partners + tensor_tile<V, kTensorRows>),
        first_facts(reinterpret_cast<QueryFacts*>(columns(2))),
        row_segments(reinterpret_cast<std::int32_t*>(first_facts + 2 * C)),
        first_segments(row_segments + kTensorRows) {}
  // Keys and values, or queries and gradients of outputs; two tiles of each for columns.
  __device__ __nv_bfloat16* columns(int stage) const { return first_columns + stage * (tensor_tile<P, C> + tensor_tile<V, C>); }
  __device__ __nv_bfloat16* column_partners(int stage) const { return columns(stage) + tensor_tile<P, C>; }
  __device__ QueryFacts* facts(int stage) const { return first_facts + stage * C; }
  __device__ std::int32_t* column_segments(int stage) const { return first_segments + stage * C; }
  __nv_bfloat16 *rows, *row_partners, *first_columns;
  QueryFacts* first_facts;
  std::int32_t *row_segments, *first_segments;
};

// Turns the products q · k and d_o · v into the probability and the gradient of q · k.
__device__ __forceinline__ void pair_gradient(const AttentionSizes& sizes, bool sees, float log_sum_exp, float delta, float& product,
                                              float& gradient) {
  const float score = capped(sizes, product);
  const float p = expf(score - log_sum_exp);
  product = sees ? p : 0.0F;
  gradient = sees ? p * (gradient - delta) * cap_gradient(sizes, score) : 0.0F;
}

// Query heads of the group in order, and for each its tiles of queries in order. For the largest head sizes the registers hold
// the sums of either dk or dv.
template <int P, int V, int C, bool Equal, bool Keys, bool Values>
__global__ void __launch_bounds__(kTensorThreads) tensor_key_gradients(Backward<__nv_bfloat16> at) {
  const AttentionSizes& sizes = at.sizes;
  const KeyTile<kTensorRows, Equal> my(sizes);
  const auto width = static_cast<int>(sizes.width), value_width = static_cast<int>(width_of_values<Equal>(sizes));
  const std::int32_t* segments = at.segments + my.row_begin;
  const SegmentRange* ranges = at.ranges == nullptr ? nullptr : at.ranges + my.row * ranges_of_row(sizes);
  const TensorTiles<P, V, C> tiles;
  load_tensor_tile<P, kTensorRows>(tiles.rows, at.k + my.k_begin, my.k_stride, my.tokens, width, at.vectors);
  load_tensor_tile<V, kTensorRows>(tiles.row_partners, at.v + my.v_begin, my.v_stride, my.tokens, value_width, at.vectors);
  load_segments<kTensorRows>(tiles.row_segments, segments + my.first, my.tokens, sizes.one_segment);
  const SegmentRange key_range = segment_range<kTensorRows>(ranges, my.first, my.sequence);

  float dk[Keys ? P / 8 : 1][4] = {}, dv[Values ? V / 8 : 1][4] = {};
  const Seen queries = seeing(sizes, my.first, my.first + my.tokens - 1);
  const int begin = queries.begin / C * C, passes = (queries.end - begin + C - 1) / C;  // per head
  const int steps = passes * static_cast<int>(my.group);
  SegmentRange next_range = key_range;
  const auto next_from = [&](int step) {
    for (; step < steps; ++step) {
      const int query = begin + step % passes * C;
      next_range = segment_range<C>(ranges, query, my.sequence);
      if (may_meet(key_range, next_range)) break;
    }
    return step;
  };
  const auto start_loads = [&](int step, int stage) {
    const int query = begin + step % passes * C, tokens = my.sequence - query < C ? my.sequence - query : C;
    const std::int64_t vector = (my.row_begin + query) * sizes.heads + my.kv_head * my.group + step / passes;
    load_tensor_tile<P, C>(tiles.columns(stage), at.q + vector * sizes.width, my.q_stride, tokens, width, at.vectors);
    load_tensor_tile<V, C>(tiles.column_partners(stage), at.d_o + vector * width_of_values<Equal>(sizes), my.o_stride, tokens, value_width,
                           at.vectors);
    load_segments<C>(tiles.column_segments(stage), segments + query, tokens, sizes.one_segment);
    if (const auto i = static_cast<int>(threadIdx.x); i < C) {
      const std::int64_t place = vector + (i < tokens ? i : 0) * sizes.heads;
      tiles.facts(stage)[i] = {seen_by(sizes, query + i), at.log_sum_exp[place], at.delta[place]};
    }
  };
  int step = next_from(0);
  start_loads(step, 0);  // the query at the same position sees the key, so there is at least one step
  for (int stage = 0; step < steps; stage ^= 1) {
    const int query = begin + step % passes * C;
    // Every query sees every key, so nothing is masked. Keys past the row's end get sums that are not read.
    const bool whole = query + C <= my.sequence && seen_by(sizes, query).end >= my.first + my.tokens &&
                       seen_by(sizes, query + C - 1).begin <= my.first && are_one(key_range, next_range);
    const int next = next_from(step + 1);
    wait_for_copies();
    __syncthreads();
    if (next < steps) start_loads(next, stage ^ 1);
    float probabilities[C / 8][4], gradients[C / 8][4] = {};
    tensor_dot_products<P, C>(tiles.rows, tiles.columns(stage), probabilities);
    if constexpr (Keys) tensor_dot_products<V, C>(tiles.row_partners, tiles.column_partners(stage), gradients);
#pragma unroll
    for (int n = 0; n < C / 8; ++n)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int column = n * 8 + lane_column() + e;
        const QueryFacts facts = tiles.facts(stage)[column];
        const std::int32_t segment = tiles.column_segments(stage)[column];
#pragma unroll
        for (int part = 0; part < 2; ++part) {
          const int row = warp_row() + lane_row() + part * 8, key = my.first + row;
          const bool sees = whole || (key >= facts.seen.begin && key < facts.seen.end && tiles.row_segments[row] == segment);
          pair_gradient(sizes, sees, facts.log_sum_exp, facts.delta, probabilities[n][part * 2 + e], gradients[n][part * 2 + e]);
        }
      }
    if constexpr (Values) add_tensor_products<V, C>(probabilities, tiles.column_partners(stage), dv);
    if constexpr (Keys) add_tensor_products<P, C>(gradients, tiles.columns(stage), dk);
    step = next;
  }
  if constexpr (Keys) store_tensor_rows<P>(at.dk + my.k_begin, my.k_stride, my.tokens, width, dk, 1, 1);
  if constexpr (Values) store_tensor_rows<V>(at.dv + my.v_begin, my.v_stride, my.tokens, value_width, dv, 1, 1);
}

template <int P, int V, int C, bool Equal>
__global__ void __launch_bounds__(kTensorThreads) tensor_query_gradients(Backward<__nv_bfloat16> at) {
  const AttentionSizes& sizes = at.sizes;
  const QueryTile<kTensorRows, Equal> my(sizes);
  const auto width = static_cast<int>(sizes.width), value_width = static_cast<int>(width_of_values<Equal>(sizes));
  const std::int32_t* segments = at.segments + my.row_begin;
  const SegmentRange* ranges = at.ranges == nullptr ? nullptr : at.ranges + my.row * ranges_of_row(sizes);
  const TensorTiles<P, V, C> tiles;
  load_tensor_tile<P, kTensorRows>(tiles.rows, at.q + my.vector * sizes.width, my.q_stride, my.tokens, width, at.vectors);
  load_tensor_tile<V, kTensorRows>(tiles.row_partners, at.d_o + my.vector * width_of_values<Equal>(sizes), my.o_stride, my.tokens,
                                   value_width, at.vectors);
  load_segments<kTensorRows>(tiles.row_segments, segments + my.first, my.tokens, sizes.one_segment);
  const SegmentRange query_range = segment_range<kTensorRows>(ranges, my.first, my.sequence);

  float dq[P / 8][4] = {}, log_sum_exps[2], deltas[2];
  Seen seen[2];
#pragma unroll
  for (int part = 0; part < 2; ++part) {
    const int token = warp_row() + lane_row() + part * 8;
    seen[part] = seen_by(sizes, my.first + token);
    log_sum_exps[part] = token < my.tokens ? at.log_sum_exp[my.vector + token * sizes.heads] : 0.0F;
    deltas[part] = token < my.tokens ? at.delta[my.vector + token * sizes.heads] : 0.0F;
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
    load_tensor_tile<P, C>(tiles.columns(stage), at.k + my.k_begin + key * my.k_stride, my.k_stride, tokens, width, at.vectors);
    load_tensor_tile<V, C>(tiles.column_partners(stage), at.v + my.v_begin + key * my.v_stride, my.v_stride, tokens, value_width,
                           at.vectors);
    load_segments<C>(tiles.column_segments(stage), segments + key, tokens, sizes.one_segment);
  };
  int key = next_from(first_sees.begin / C * C);
  start_loads(key, 0);  // a query sees itself, so there is at least one step
  for (int stage = 0; key < last_sees.end; stage ^= 1) {
    // Every query sees every key, so nothing is masked. Queries past the row's end get sums that are not read.
    const bool whole = key >= last_sees.begin && key + C <= first_sees.end && are_one(query_range, next_range);
    const int next = next_from(key + C);
    wait_for_copies();
    __syncthreads();
    if (next < last_sees.end) start_loads(next, stage ^ 1);
    float probabilities[C / 8][4], gradients[C / 8][4];
    tensor_dot_products<P, C>(tiles.rows, tiles.columns(stage), probabilities);
    tensor_dot_products<V, C>(tiles.row_partners, tiles.column_partners(stage), gradients);
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      const std::int32_t segment = tiles.row_segments[warp_row() + lane_row() + part * 8];
#pragma unroll
      for (int n = 0; n < C / 8; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int column = n * 8 + lane_column() + e;
          const bool sees = whole || (key + column >= seen[part].begin && key + column < seen[part].end &&
                                      tiles.column_segments(stage)[column] == segment);
          pair_gradient(sizes, sees, log_sum_exps[part], deltas[part], probabilities[n][part * 2 + e], gradients[n][part * 2 + e]);
        }
    }
    add_tensor_products<P, C>(gradients, tiles.columns(stage), dq);
    key = next;
  }
  store_tensor_rows<P>(at.dq + my.vector * sizes.width, my.q_stride, my.tokens, width, dq, 1, 1);
}

template <int B>
dim3 blocks(const AttentionSizes& sizes, std::int64_t heads) {
  return dim3(blocks_of(sizes.sequence, B) * static_cast<unsigned>(sizes.rows * heads));
}

void backward(const ExecutionContext& context, const Backward<float>& at) {
  const AttentionSizes& sizes = at.sizes;
  with_padded<32, 32>(sizes, [&]<int P, int V, int B, bool Equal>() {
    constexpr std::size_t shared = backward_shared<P, V, B>;
    launch(context, component, key_gradients<P, V, B, Equal>, blocks<B>(sizes, sizes.kv_heads), dim3(kThreads), shared, at);
    launch(context, component, query_gradients<P, V, B, Equal>, blocks<B>(sizes, sizes.heads), dim3(kThreads), shared, at);
  });
}

void backward(const ExecutionContext& context, const Backward<__nv_bfloat16>& at) {
  const AttentionSizes& sizes = at.sizes;
  const dim3 keys = blocks<kTensorRows>(sizes, sizes.kv_heads), queries = blocks<kTensorRows>(sizes, sizes.heads), block(kTensorThreads);
  with_padded<32, 32>(sizes, [&]<int P, int V, int C, bool Equal>() {
    constexpr std::size_t shared = tensor_backward_shared<P, V, C>;
    if constexpr (P <= 128) {
      launch(context, component, tensor_key_gradients<P, V, C, Equal, true, true>, keys, block, shared, at);
    } else {
      launch(context, component, tensor_key_gradients<P, V, C, Equal, true, false>, keys, block, shared, at);
      launch(context, component, tensor_key_gradients<P, V, C, Equal, false, true>, keys, block, shared, at);
    }
    launch(context, component, tensor_query_gradients<P, V, C, Equal>, queries, block, shared, at);
  });
}

}  // namespace

void tiled_attention_input_gradient(const ExecutionContext& context, const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor& o, const Tensor& log_sum_exp, const Tensor& segments, AttentionOptions options,
                                    const Tensor& dq, const Tensor& dk, const Tensor& dv, const SegmentRange* ranges, float* delta) {
  const AttentionSizes sizes = attention_sizes(q.shape, k.shape, options);
  with_type(q.dtype, [&](auto type) {
    using T = decltype(type);
    const std::int64_t vectors = sizes.rows * sizes.sequence * sizes.heads;
    launch(context, component, products_of_outputs<T>, dim3(blocks_of(vectors, kThreads / 32)), dim3(kThreads), 0, d_o.as<T>(), o.as<T>(),
           delta, vectors, static_cast<int>(sizes.value_width));
    backward(context,
             Backward<T>{sizes, d_o.as<T>(), q.as<T>(), k.as<T>(), v.as<T>(), log_sum_exp.as<float>(), delta, segments.as<std::int32_t>(),
                         ranges, dq.as<T>(), dk.as<T>(), dv.as<T>(), eight_at_a_time(sizes, {d_o.data, q.data, k.data, v.data})});
  });
}

}  // namespace millrace::kernels::cuda
