#include "kernels/cpu/attention_loops.hpp"
#include "kernels/cpu/attention_tile.hpp"

namespace millrace::kernels::cpu {
namespace {

// Memory of a thread for one row and key/value head.
struct Workspace {
  float* keys_by_column;    // [tiles, D, 64]
  float* values_by_column;  // [tiles, D, 64]
  float* keys;              // [S, padded]
  float* dk;                // [S, padded]
  float* dv;                // [S, padded]
  float* q;                 // [64, padded], times scale·log2 e
  float* d_o;               // [64, padded]
  float* dq;                // [64, padded], not yet times scale
  float* probabilities;     // [64, 64]
  float* d_scores;          // [64, 64]
  float* log_sums;          // [64], in powers of two
  float* deltas;            // [64], dO·O
};

MILLRACE_INLINE Workspace lay_out(const AttentionSizes& sizes, float* memory) {
  Workspace work;
  work.keys_by_column = memory;
  work.values_by_column = work.keys_by_column + head_floats(sizes);
  work.keys = work.values_by_column + head_floats(sizes);
  work.dk = work.keys + head_floats(sizes);
  work.dv = work.dk + head_floats(sizes);
  work.q = work.dv + head_floats(sizes);
  work.d_o = work.q + tile_floats(sizes);
  work.dq = work.d_o + tile_floats(sizes);
  work.probabilities = work.dq + tile_floats(sizes);
  work.d_scores = work.probabilities + kTile * kTile;
  work.log_sums = work.d_scores + kTile * kTile;
  work.deltas = work.log_sums + kTile;
  return work;
}

// Turns scores and dP into P = 2^(score − log-sum) and dS = P·(dP − delta), both exactly 0 where the query does not see the key.
template <bool masked, bool capped>
MILLRACE_INLINE void score_gradients(const AttentionSizes& sizes, const ScoreTile& tile, const Workspace& work) {
  for_each_row<masked>(
      tile, [&]<int vectors>(std::int64_t t, Count<vectors>) __attribute__((always_inline)) {
        float* p_row = work.probabilities + t * kTile;
        float* d_row = work.d_scores + t * kTile;
        const float log_sum = work.log_sums[t];
        const float delta = work.deltas[t];
#pragma GCC unroll 16
        for (int i = 0; i < vectors; ++i) {
          Wide score = load_wide(p_row + kWide * i);
          if (capped) score = cap_scores(score, sizes.soft_cap);
          Wide p = power_of_two(score - log_sum);
          Wide ds = p * (load_wide(d_row + kWide * i) - delta);
          if (capped) ds *= cap_gradient(score, sizes.soft_cap);
          if (masked) {
            const WideMask visible = tile.visible(t, i);
            p = visible ? p : Wide{};
            ds = visible ? ds : Wide{};
          }
          store_wide(p_row + kWide * i, p);
          store_wide(d_row + kWide * i, ds);
        }
      });
}

// The five products of one tile: scores and dP, then dV += Pᵀ dO, dK += dSᵀ Q, dQ += dS K.
MILLRACE_INLINE void backward_tile(const AttentionSizes& sizes, const ScoreTile& tile, std::int64_t key_tile, bool first,
                                   const Workspace& work) {
  const std::int64_t padded = sizes.padded;
  const std::int64_t offset = key_tile * tile_floats(sizes);
  const std::int64_t columns = 16 * vectors_of(tile.keys);
  const Part scores = tile.diagonal ? Part::columns_to_diagonal : Part::whole;
  const Part by_query = tile.diagonal ? Part::depth_to_diagonal : Part::whole;
  const Part by_key = tile.diagonal ? Part::depth_from_diagonal : Part::whole;
  product<false>(scores, tile.queries, columns, sizes.width,
                 {work.q, padded, work.keys_by_column + offset, kTile, work.probabilities, kTile, false});
  product<false>(scores, tile.queries, columns, sizes.width,
                 {work.d_o, padded, work.values_by_column + offset, kTile, work.d_scores, kTile, false});
  if (sizes.soft_cap > 0)
    score_gradients<true, true>(sizes, tile, work);
  else if (tile.masked())
    score_gradients<true, false>(sizes, tile, work);
  else
    score_gradients<false, false>(sizes, tile, work);
  product<true>(by_key, tile.keys, padded, tile.queries, {work.probabilities, kTile, work.d_o, padded, work.dv + offset, padded, true});
  product<true>(by_key, tile.keys, padded, tile.queries, {work.d_scores, kTile, work.q, padded, work.dk + offset, padded, true});
  product<false>(by_query, tile.queries, padded, tile.keys, {work.d_scores, kTile, work.keys + offset, padded, work.dq, padded, !first});
}

template <class T>
MILLRACE_INLINE void load_queries(const AttentionBackward<T>& at, std::int64_t first_token, std::int64_t head, std::int64_t queries,
                                  const Workspace& work) {
  const AttentionSizes& sizes = at.sizes;
  const std::int64_t start = (first_token * sizes.heads + head) * sizes.width;
  const std::int64_t step = sizes.heads * sizes.width;
  pack_rows(at.q + start, step, queries, sizes, sizes.scale * kLog2E, work.q);
  pack_rows(at.d_o + start, step, queries, sizes, 1.0F, work.d_o);
  for (std::int64_t t = 0; t < queries; ++t) {
    f32x16 sum{};
    for (std::int64_t d = 0; d < sizes.width; d += 16)
      sum += load(work.d_o + t * sizes.padded + d) * load_lanes(at.o + start + t * step + d, sizes.width - d);
    work.deltas[t] = sum_lanes(sum);
    work.log_sums[t] = at.log_sum_exp[(first_token + t) * sizes.heads + head] * kLog2E;
  }
}

template <class T>
MILLRACE_INLINE void store_rows(const float* packed, std::int64_t count, const AttentionSizes& sizes, float factor, T* x,
                                std::int64_t step) {
  for (std::int64_t t = 0; t < count; ++t)
    for (std::int64_t d = 0; d < sizes.width; d += 16)
      store_lanes(x + t * step + d, load(packed + t * sizes.padded + d) * factor, sizes.width - d);
}

template <class T>
MILLRACE_INLINE void backward_queries(const AttentionBackward<T>& at, std::int64_t row, std::int64_t head, std::int64_t query_tile,
                                      const Workspace& work) {
  const AttentionSizes& sizes = at.sizes;
  const std::int64_t first_token = row * sizes.sequence + query_tile * kTile;
  const std::int64_t queries = smaller(kTile, sizes.sequence - query_tile * kTile);
  load_queries(at, first_token, head, queries, work);
  bool first = true;
  ScoreTile tile;
  for (std::int64_t key_tile = first_key_tile(sizes, query_tile); key_tile <= last_key_tile(sizes, query_tile); ++key_tile) {
    if (!describe_tile(sizes, at.segments + row * sizes.sequence, query_tile, key_tile, tile)) continue;
    backward_tile(sizes, tile, key_tile, first, work);
    first = false;
  }
  store_rows(work.dq, queries, sizes, sizes.scale, at.dq + (first_token * sizes.heads + head) * sizes.width, sizes.heads * sizes.width);
}

template <class T>
MILLRACE_INLINE void backward(const AttentionBackward<T>& at, std::int64_t row, std::int64_t kv_head, float* memory) {
  const AttentionSizes& sizes = at.sizes;
  const Workspace work = lay_out(sizes, memory);
  const std::int64_t start = (row * sizes.sequence * sizes.kv_heads + kv_head) * sizes.width;
  const std::int64_t step = sizes.kv_heads * sizes.width;
  pack_columns(at.k + start, step, sizes, work.keys_by_column);
  pack_columns(at.v + start, step, sizes, work.values_by_column);
  pack_rows(at.k + start, step, sizes.sequence, sizes, 1.0F, work.keys);
  for (std::int64_t i = 0; i < 2 * head_floats(sizes); i += 16) store(work.dk + i, f32x16{});
  const std::int64_t group = sizes.heads / sizes.kv_heads;
  for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
    for (std::int64_t tile = 0; tile < sizes.tiles; ++tile) backward_queries(at, row, head, tile, work);
  store_rows(work.dk, sizes.sequence, sizes, kLn2, at.dk + start, step);  // q was times scale·log2 e
  store_rows(work.dv, sizes.sequence, sizes, 1.0F, at.dv + start, step);
}

}  // namespace

namespace MILLRACE_ISA {

void attention_backward_f32(const AttentionBackward<float>& at, std::int64_t row, std::int64_t kv_head, float* memory) {
  backward(at, row, kv_head, memory);
}
void attention_backward_bf16(const AttentionBackward<BFloat16>& at, std::int64_t row, std::int64_t kv_head, float* memory) {
  backward(at, row, kv_head, memory);
}

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu
