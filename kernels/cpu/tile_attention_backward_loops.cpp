#include "kernels/cpu/attention_tile.hpp"
#include "kernels/cpu/gemm/tile_blocks.hpp"
#include "kernels/cpu/tile_attention_loops.hpp"

/// Scores are computed transposed, keys by queries: as left operands, which products want them to be for dV and dK, and so is dQ.
namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kHalf = kTile / 2;  // keys whose scores are computed at a time
constexpr std::int64_t kSteps = kTile / 32;
constexpr std::int64_t kSpan = 8;  // tiles of keys that all queries pass over before the next ones: they stay in the L2 cache

// Memory of a thread for one row and key/value head. Operands are those of tile_blocks.hpp.
struct Workspace {
  BFloat16* keys;             // left [S, padded]
  BFloat16* values;           // left [S, value_padded]
  BFloat16* keys_by_feature;  // left [padded, 64], one for each tile of keys
  float* dk;                  // [S, padded], not yet times scale
  float* dv;                  // [S, value_padded]
  float* dq;                  // [padded, 64] for each tile of queries of one head, not yet times scale
  float* log_sums;            // [S], in powers of two
  float* deltas;              // [S], dO·O
  // of one tile of queries
  BFloat16* q;               // right [64, padded]
  BFloat16* q_by_feature;    // right [padded, 64]
  BFloat16* d_o;             // right [64, value_padded]
  BFloat16* d_o_by_feature;  // right [value_padded, 64]
  float* scores;             // [32, 64]
  float* d_p;                // [32, 64]
  BFloat16* probabilities;   // left [64, 64]
  BFloat16* d_scores;        // left [64, 64]
  BFloat16* d_scores_right;  // right [64, 64]
};

MILLRACE_INLINE Workspace lay_out(const AttentionSizes& sizes, float* memory) {
  Workspace work;
  const auto floats = [&memory](std::int64_t count) __attribute__((always_inline)) {
    float* const part = memory;
    memory += count;
    return part;
  };
  const auto numbers = [&floats](std::int64_t count) __attribute__((always_inline)) {
    return reinterpret_cast<BFloat16*>(floats(count / 2));
  };
  const std::int64_t keys = head_floats(sizes, sizes.padded), values = head_floats(sizes, sizes.value_padded);
  work.keys = numbers(keys);
  work.values = numbers(values);
  work.keys_by_feature = numbers(keys);
  work.dk = floats(keys);
  work.dv = floats(values);
  work.dq = floats(keys);
  work.log_sums = floats(sizes.tiles * kTile);
  work.deltas = floats(sizes.tiles * kTile);
  work.q = numbers(tile_floats(sizes.padded));
  work.q_by_feature = numbers(tile_floats(sizes.padded));
  work.d_o = numbers(tile_floats(sizes.value_padded));
  work.d_o_by_feature = numbers(tile_floats(sizes.value_padded));
  work.scores = floats(kHalf * kTile);
  work.d_p = floats(kHalf * kTile);
  work.probabilities = numbers(kTile * kTile);
  work.d_scores = numbers(kTile * kTile);
  work.d_scores_right = numbers(kTile * kTile);
  return work;
}

MILLRACE_INLINE void clear(float* x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += 16) store(x + i, f32x16{});
}

// The gradients of 32 keys' scores, two keys at a time, from the vector of queries `begin`: P and dS, both exactly 0 where the query does
// not see the key.
template <bool masked, bool capped, int begin>
MILLRACE_INLINE void half_gradients(const AttentionSizes& sizes, const ScoreTile& tile, std::int64_t query_tile, std::int64_t half,
                                    const Workspace& work) {
  constexpr int vectors = kTile / kWide;
  const float factor = sizes.scale * kLog2E;
  const float* const log_sums = work.log_sums + query_tile * kTile;
  const float* const deltas = work.deltas + query_tile * kTile;
  for (std::int64_t key = 0; key < kHalf; key += 2) {
    const std::int64_t line = (half * 2 + key / 16) * kSteps * kTileNumbers + key % 16 * 32;
    const std::int64_t pair = half * (kTile / 16) * kTileNumbers + key * 16;
#pragma GCC unroll 4
    for (int i = begin; i < vectors; i += 2) {
      Wide p[2][2], ds[2][2];
#pragma GCC unroll 4
      for (int of = 0; of < 4; ++of) {
        const int u = of / 2, j = of % 2;
        const std::int64_t from = (key + u) * kTile + (i + j) * kWide;
        p[u][j] = load_wide(work.scores + from) * factor;
        ds[u][j] = load_wide(work.d_p + from);
        score_gradient<capped>(sizes.soft_cap, load_wide(log_sums + (i + j) * kWide), load_wide(deltas + (i + j) * kWide), p[u][j],
                               ds[u][j]);
        if (masked) {
          const WideMask seeing = tile.seeing(half * kHalf + key + u, i + j);
          p[u][j] = seeing ? p[u][j] : Wide{};
          ds[u][j] = seeing ? ds[u][j] : Wide{};
        }
      }
      const std::int64_t to = line + i / 2 * kTileNumbers;
#pragma GCC unroll 2
      for (int u = 0; u < 2; ++u) {
        store_rounded(work.probabilities + to + 32 * u, p[u][0], p[u][1]);
        store_rounded(work.d_scores + to + 32 * u, ds[u][0], ds[u][1]);
      }
      const u16x32 even = load_numbers(work.d_scores + to, 32), odd = load_numbers(work.d_scores + to + 32, 32);
      store_numbers(work.d_scores_right + pair + i * kTileNumbers, pair_low(even, odd));
      store_numbers(work.d_scores_right + pair + (i + 1) * kTileNumbers, pair_high(even, odd));
    }
  }
}

template <int begin>
MILLRACE_INLINE void half_gradients(const AttentionSizes& sizes, const ScoreTile& tile, std::int64_t query_tile, std::int64_t half,
                                    const Workspace& work) {
  if (sizes.soft_cap > 0)
    half_gradients<true, true, begin>(sizes, tile, query_tile, half, work);
  else if (tile.masked())
    half_gradients<true, false, begin>(sizes, tile, query_tile, half, work);
  else
    half_gradients<false, false, begin>(sizes, tile, query_tile, half, work);
}

// The five products of one tile: scores and dP, then dV += Pᵀ dO, dK += dSᵀ Q, dQᵀ += Kᵀ dSᵀ. On the diagonal the first half of the queries
// does not see the last half of the keys.
MILLRACE_INLINE void backward_tile(Tiles& tiles, const AttentionSizes& sizes, const ScoreTile& tile, std::int64_t query_tile,
                                   std::int64_t key_tile, const Workspace& work) {
  const std::int64_t padded = sizes.padded, value_padded = sizes.value_padded;
  const std::int64_t depth = padded / 32, value_depth = value_padded / 32;
  const std::int64_t offset = key_tile * tile_floats(padded), value_offset = key_tile * tile_floats(value_padded);
  for (std::int64_t half = 0; half < 2; ++half) {
    const std::int64_t begin = tile.diagonal ? half : 0;  // half of the queries
    const std::int64_t column = begin * kHalf, from = begin * 2 * kTileNumbers;
    multiply_rows(tiles,
                  {work.keys + offset + half * kHalf * padded, depth, work.q_by_feature + from, kTile / 16, work.scores + column, kTile},
                  kTile - column, depth, false);
    multiply_rows(tiles,
                  {work.values + value_offset + half * kHalf * value_padded, value_depth, work.d_o_by_feature + from, kTile / 16,
                   work.d_p + column, kTile},
                  kTile - column, value_depth, false);
    if (begin == 1)
      half_gradients<kHalf / kWide>(sizes, tile, query_tile, half, work);
    else
      half_gradients<0>(sizes, tile, query_tile, half, work);
    const std::int64_t left = (half * 2 * kSteps + begin) * kTileNumbers;
    multiply_rows(tiles,
                  {work.probabilities + left, kSteps, work.d_o + begin * kHalf * value_padded, value_padded / 16,
                   work.dv + value_offset + half * kHalf * value_padded, value_padded},
                  value_padded, kSteps - begin, true);
    multiply_rows(
        tiles,
        {work.d_scores + left, kSteps, work.q + begin * kHalf * padded, padded / 16, work.dk + offset + half * kHalf * padded, padded},
        padded, kSteps - begin, true);
  }
  float* const dq = work.dq + query_tile * tile_floats(padded);
  for (std::int64_t feature = 0; feature < padded; feature += 32)
    for (std::int64_t half = 0; half < 2; ++half)
      multiply_block(tiles,
                     {work.keys_by_feature + offset + feature * kTile, kSteps, work.d_scores_right + half * 2 * kTileNumbers, kTile / 16,
                      dq + feature * kTile + half * kHalf, kTile},
                     tile.diagonal ? half + 1 : kSteps, true);
}

MILLRACE_INLINE void copy_queries(const AttentionBackward<BFloat16>& at, std::int64_t first_token, std::int64_t head, std::int64_t queries,
                                  const Workspace& work) {
  const Vectors q = queries_of(at.sizes), results = results_of(at.sizes);
  const std::int64_t vector = first_token * at.sizes.heads + head;
  const Lines lines{at.q + vector * q.width, q.step, queries, q.width};
  copy_right(lines, kTile, work.q);
  copy_transposed_right(lines, kTile, work.q_by_feature);
  const Lines d_o{at.d_o + vector * results.width, results.step, queries, results.width};
  copy_right(d_o, kTile, work.d_o);
  copy_transposed_right(d_o, kTile, work.d_o_by_feature);
}

// Log-sums and deltas of a head; those of tokens beyond the row are zero.
MILLRACE_INLINE void prepare_sums(const AttentionBackward<BFloat16>& at, std::int64_t row, std::int64_t head, const Workspace& work) {
  const AttentionSizes& sizes = at.sizes;
  const Vectors results = results_of(sizes);
  for (std::int64_t t = 0; t < sizes.tiles * kTile; ++t) {
    work.deltas[t] = 0;
    work.log_sums[t] = 0;
    if (t >= sizes.sequence) continue;
    const std::int64_t vector = (row * sizes.sequence + t) * sizes.heads + head;
    const BFloat16 *d_o = at.d_o + vector * results.width, *o = at.o + vector * results.width;
    f32x16 sum{};
    for (std::int64_t d = 0; d < results.width; d += 16)
      sum += load_lanes(d_o + d, results.width - d) * load_lanes(o + d, results.width - d);
    work.deltas[t] = sum_of_lanes(sum);
    work.log_sums[t] = at.log_sum_exp[vector] * kLog2E;
  }
}

MILLRACE_INLINE void store_dq(const AttentionBackward<BFloat16>& at, std::int64_t row, std::int64_t head, const Workspace& work) {
  const AttentionSizes& sizes = at.sizes;
  const Vectors q = queries_of(sizes);
  for (std::int64_t t = 0; t < sizes.sequence; t += 16)
    for (std::int64_t d = 0; d < q.width; d += 16) {
      const float* const from = work.dq + t / kTile * tile_floats(q.padded) + d * kTile + t % kTile;
      f32x16 square[16];
#pragma GCC unroll 16
      for (std::int64_t i = 0; i < 16; ++i) square[i] = load(from + i * kTile) * sizes.scale;
      transpose_16x16(square);
      BFloat16* const to = at.dq + ((row * sizes.sequence + t) * sizes.heads + head) * q.width + d;
      for (std::int64_t i = 0; i < smaller(16, sizes.sequence - t); ++i) store_lanes(to + i * q.step, square[i], q.width - d);
    }
}

MILLRACE_INLINE void backward_head(Tiles& tiles, const AttentionBackward<BFloat16>& at, std::int64_t row, std::int64_t head,
                                   const Workspace& work) {
  const AttentionSizes& sizes = at.sizes;
  prepare_sums(at, row, head, work);
  clear(work.dq, head_floats(sizes, sizes.padded));
  for (std::int64_t span = 0; span < sizes.tiles; span += kSpan)
    for (std::int64_t query_tile = sizes.causal ? span : 0; query_tile < sizes.tiles; ++query_tile) {
      bool first = true;
      for_each_key_tile(
          at, row, head, query_tile, span, span + kSpan, [&](const ScoreTile& tile, std::int64_t key_tile) __attribute__((always_inline)) {
            if (first) copy_queries(at, row * sizes.sequence + query_tile * kTile, head, tile.queries, work);
            first = false;
            backward_tile(tiles, sizes, tile, query_tile, key_tile, work);
          });
    }
  store_dq(at, row, head, work);
}

MILLRACE_INLINE void store_rows(const float* packed, std::int64_t count, Vectors vectors, float factor, BFloat16* x) {
  for (std::int64_t t = 0; t < count; ++t)
    for (std::int64_t d = 0; d < vectors.width; d += 16)
      store_lanes(x + t * vectors.step + d, load(packed + t * vectors.padded + d) * factor, vectors.width - d);
}

}  // namespace

namespace MILLRACE_TILES {

void tile_attention_backward(const AttentionBackward<BFloat16>& at, std::int64_t row, std::int64_t kv_head, float* memory) {
  Tiles tiles;
  const AttentionSizes& sizes = at.sizes;
  const Workspace work = lay_out(sizes, memory);
  const std::int64_t vector = row * sizes.sequence * sizes.kv_heads + kv_head;  // of the row's first token
  const Vectors keys = keys_of(sizes), values = values_of(sizes);
  const Lines key_lines{at.k + vector * keys.width, keys.step, sizes.sequence, keys.width};
  copy_left(key_lines, sizes.tiles * kTile, work.keys);
  copy_left({at.v + vector * values.width, values.step, sizes.sequence, values.width}, sizes.tiles * kTile, work.values);
  for (std::int64_t tile = 0; tile < sizes.tiles; ++tile)
    copy_transposed_left({key_lines.from + tile * kTile * keys.step, keys.step, sizes.sequence - tile * kTile, keys.width}, kTile,
                         work.keys_by_feature + tile * tile_floats(keys.padded));
  clear(work.dk, head_floats(sizes, keys.padded));
  clear(work.dv, head_floats(sizes, values.padded));
  const std::int64_t group = sizes.heads / sizes.kv_heads;
  for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) backward_head(tiles, at, row, head, work);
  store_rows(work.dk, sizes.sequence, keys, sizes.scale, at.dk + vector * keys.width);
  store_rows(work.dv, sizes.sequence, values, 1.0F, at.dv + vector * values.width);
}

}  // namespace MILLRACE_TILES
}  // namespace millrace::kernels::cpu
