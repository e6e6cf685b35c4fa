#include "kernels/cpu/attention_loops.hpp"
#include "kernels/cpu/attention_tile.hpp"
#include "kernels/cpu/tile_product.hpp"

namespace millrace::kernels::cpu {
namespace {

// Memory of a thread for one row and key/value head.
struct Workspace {
  float* keys_by_column;    // [tiles, D, 64]
  float* values_by_column;  // [tiles, Dv, 64]
  float* keys;              // [S, padded]
  float* dk;                // [S, padded]
  float* dv;                // [S, value_padded]
  float* q;                 // [64, padded], times scale·log2 e
  float* d_o;               // [64, value_padded]
  float* dq;                // [64, padded], not yet times scale
  float* probabilities;     // [64, 64]
  float* d_scores;          // [64, 64]
  float* log_sums;          // [64], in powers of two
  float* deltas;            // [64], dO·O
};

MILLRACE_INLINE Workspace lay_out(const AttentionSizes& sizes, float* memory) {
  Workspace work;
  work.keys_by_column = memory;
  const std::int64_t keys = head_floats(sizes, sizes.padded), values = head_floats(sizes, sizes.value_padded);
  work.values_by_column = work.keys_by_column + keys;
  work.keys = work.values_by_column + values;
  work.dk = work.keys + keys;
  work.dv = work.dk + keys;
  work.q = work.dv + values;
  work.d_o = work.q + tile_floats(sizes.padded);
  work.dq = work.d_o + tile_floats(sizes.value_padded);
  work.probabilities = work.dq + tile_floats(sizes.padded);
  work.d_scores = work.probabilities + kTile * kTile;
  work.log_sums = work.d_scores + kTile * kTile;
  work.deltas = work.log_sums + kTile;
  return work;
}

// Turns scores and dP into P = 2^(score − log-sum) and dS = P·(dP − delta), both exactly 0 where the query does not see the key.
template <bool masked, bool capped>
MILLRACE_INLINE void score_gradients(const AttentionSizes& sizes, const ScoreTile& tile, const Workspace& work) {
  for_each_row<masked>(
      tile, kBlockRows, [&]<int vectors>(std::int64_t t, Count<vectors>) __attribute__((always_inline)) {
        float* p_row = work.probabilities + t * kTile;
        float* d_row = work.d_scores + t * kTile;
        const Wide log_sum = wide(work.log_sums[t]);
        const Wide delta = wide(work.deltas[t]);
#pragma GCC unroll 16
        for (int i = 0; i < vectors; ++i) {
          Wide p = load_wide(p_row + kWide * i);
          Wide ds = load_wide(d_row + kWide * i);
          score_gradient<capped>(sizes.soft_cap, log_sum, delta, p, ds);
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
  const std::int64_t padded = sizes.padded, value_padded = sizes.value_padded;
  const std::int64_t offset = key_tile * tile_floats(padded), value_offset = key_tile * tile_floats(value_padded);
  const std::int64_t columns = 16 * vectors_of(tile.keys);
  const Part scores = tile.diagonal ? Part::columns_to_diagonal : Part::whole;
  const Part by_query = tile.diagonal ? Part::depth_to_diagonal : Part::whole;
  const Part by_key = tile.diagonal ? Part::depth_from_diagonal : Part::whole;
  product<false>(scores, tile.queries, columns, sizes.width,
                 {work.q, padded, work.keys_by_column + offset, kTile, work.probabilities, kTile, false});
  product<false>(scores, tile.queries, columns, sizes.value_width,
                 {work.d_o, value_padded, work.values_by_column + value_offset, kTile, work.d_scores, kTile, false});
  if (sizes.soft_cap > 0)
    score_gradients<true, true>(sizes, tile, work);
  else if (tile.masked())
    score_gradients<true, false>(sizes, tile, work);
  else
    score_gradients<false, false>(sizes, tile, work);
  product<true>(by_key, tile.keys, value_padded, tile.queries,
                {work.probabilities, kTile, work.d_o, value_padded, work.dv + value_offset, value_padded, true});
  product<true>(by_key, tile.keys, padded, tile.queries, {work.d_scores, kTile, work.q, padded, work.dk + offset, padded, true});
  product<false>(by_query, tile.queries, padded, tile.keys, {work.d_scores, kTile, work.keys + offset, padded, work.dq, padded, !first});
}

template <class T>
MILLRACE_INLINE void load_queries(const AttentionBackward<T>& at, std::int64_t first_token, std::int64_t head, std::int64_t queries,
                                  const Workspace& work) {
  const AttentionSizes& sizes = at.sizes;
  const std::int64_t vector = first_token * sizes.heads + head;
  const Vectors results = results_of(sizes);
  pack_rows(at.q + vector * sizes.width, queries_of(sizes), queries, sizes.scale * kLog2E, work.q);
  pack_rows(at.d_o + vector * results.width, results, queries, 1.0F, work.d_o);
  const T* o = at.o + vector * results.width;
  for (std::int64_t t = 0; t < queries; ++t) {
    f32x16 sum{};
    for (std::int64_t d = 0; d < results.width; d += 16)
      sum += load(work.d_o + t * results.padded + d) * load_lanes(o + t * results.step + d, results.width - d);
    work.deltas[t] = sum_lanes(sum);
    work.log_sums[t] = at.log_sum_exp[(first_token + t) * sizes.heads + head] * kLog2E;
  }
}

template <class T>
MILLRACE_INLINE void store_rows(const float* packed, std::int64_t count, Vectors vectors, float factor, T* x) {
  for (std::int64_t t = 0; t < count; ++t)
    for (std::int64_t d = 0; d < vectors.width; d += 16)
      store_lanes(x + t * vectors.step + d, load(packed + t * vectors.padded + d) * factor, vectors.width - d);
}

template <class T>
MILLRACE_INLINE void backward_queries(const AttentionBackward<T>& at, std::int64_t row, std::int64_t head, std::int64_t query_tile,
                                      const Workspace& work) {
  const AttentionSizes& sizes = at.sizes;
  const std::int64_t first_token = row * sizes.sequence + query_tile * kTile;
  const std::int64_t queries = smaller(kTile, sizes.sequence - query_tile * kTile);
  load_queries(at, first_token, head, queries, work);
  bool first = true;
  for_each_key_tile(
      at, row, head, query_tile, 0, sizes.tiles, [&](const ScoreTile& tile, std::int64_t key_tile) __attribute__((always_inline)) {
        backward_tile(sizes, tile, key_tile, first, work);
        first = false;
      });
  store_rows(work.dq, queries, queries_of(sizes), sizes.scale, at.dq + (first_token * sizes.heads + head) * sizes.width);
}

template <class T>
MILLRACE_INLINE void backward(const AttentionBackward<T>& at, std::int64_t row, std::int64_t kv_head, float* memory) {
  const AttentionSizes& sizes = at.sizes;
  const Workspace work = lay_out(sizes, memory);
  const std::int64_t vector = row * sizes.sequence * sizes.kv_heads + kv_head;  // of the row's first token
  const Vectors keys = keys_of(sizes), values = values_of(sizes);
  pack_columns(at.k + vector * keys.width, keys, sizes, work.keys_by_column);
  pack_columns(at.v + vector * values.width, values, sizes, work.values_by_column);
  pack_rows(at.k + vector * keys.width, keys, sizes.sequence, 1.0F, work.keys);
  // dv comes after dk.
  for (std::int64_t i = 0; i < head_floats(sizes, keys.padded) + head_floats(sizes, values.padded); i += 16) store(work.dk + i, f32x16{});
  const std::int64_t group = sizes.heads / sizes.kv_heads;
  for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
    for (std::int64_t tile = 0; tile < sizes.tiles; ++tile) backward_queries(at, row, head, tile, work);
  store_rows(work.dk, sizes.sequence, keys, kLn2, at.dk + vector * keys.width);  // q was times scale·log2 e
  store_rows(work.dv, sizes.sequence, values, 1.0F, at.dv + vector * values.width);
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
