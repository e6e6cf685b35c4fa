#pragma once

#include <cstdint>

#include "kernels/cpu/attention_loops.hpp"
#include "kernels/cpu/simd/lanes.hpp"
#include "kernels/cpu/simd/transpose_16x16.hpp"
#include "kernels/cpu/simd/wide.hpp"

/// Code that attention's forward and backward share, in fp32 and on tile registers: packing, masks, powers of two. Only for sources of
/// millrace_cpu_kernel() and millrace_tile_kernel().
namespace millrace::kernels::cpu {
namespace {

constexpr float kLog2E = 1.44269504088896341F;
constexpr float kLn2 = 0.693147180559945309F;
constexpr float kMinusInfinity = -__builtin_inff();

MILLRACE_INLINE std::int64_t vectors_of(std::int64_t count) { return (count + 15) / 16; }

/// 2ˣ for x <= 127 within 1 ulp: x = n + r with |r| <= ½, a polynomial in r (interpolated at Chebyshev's points), n added to the exponent.
/// Exactly 1 at 0; below −125 exactly 0; NaN stays NaN.
MILLRACE_INLINE_UNLESS_MODEL Wide power_of_two(Wide x) {
  const Wide magic = wide(12582912.0F);  // 1.5·2²³: the sum's low bits are the rounded integer
  const Wide shifted = x + magic;
  const Wide r = x - (shifted - magic);
  Wide p = wide(1.545316336e-04F);
  p = multiply_add(p, r, wide(1.339086331e-03F));
  p = multiply_add(p, r, wide(9.618083015e-03F));
  p = multiply_add(p, r, wide(5.550356954e-02F));
  p = multiply_add(p, r, wide(2.402265072e-01F));
  p = multiply_add(p, r, wide(6.931471825e-01F));
  p = multiply_add(p, r, wide(1.0F));
  const Wide scaled = (Wide)((WideBits)p + ((WideBits)shifted << 23));
  return x < -125.0F ? Wide{} : scaled;
}

/// The head vectors of one operand in memory: `width` numbers each, packed with zeros up to `padded`, and the elements from one token's
/// vector to the next.
struct Vectors {
  std::int64_t width, padded, step;
};
MILLRACE_INLINE Vectors queries_of(const AttentionSizes& sizes) { return {sizes.width, sizes.padded, sizes.heads * sizes.width}; }
MILLRACE_INLINE Vectors keys_of(const AttentionSizes& sizes) { return {sizes.width, sizes.padded, sizes.kv_heads * sizes.width}; }
MILLRACE_INLINE Vectors values_of(const AttentionSizes& sizes) {
  return {sizes.value_width, sizes.value_padded, sizes.kv_heads * sizes.value_width};
}
MILLRACE_INLINE Vectors results_of(const AttentionSizes& sizes) {
  return {sizes.value_width, sizes.value_padded, sizes.heads * sizes.value_width};
}

/// Packs `count` head vectors times `factor`, one after the other.
template <class T>
MILLRACE_INLINE void pack_rows(const T* x, Vectors vectors, std::int64_t count, float factor, float* packed) {
  for (std::int64_t t = 0; t < count; ++t)
    for (std::int64_t d = 0; d < vectors.padded; d += 16)
      store(packed + t * vectors.padded + d, load_lanes(x + t * vectors.step + d, vectors.width - d) * factor);
}

/// Packs the head vectors of a whole row as columns, tile by tile: [tiles, width, 64]; keys beyond the sequence are zero.
template <class T>
MILLRACE_INLINE void pack_columns(const T* x, Vectors vectors, const AttentionSizes& sizes, float* packed) {
  const std::int64_t step = vectors.step;
  for (std::int64_t u = 0; u < sizes.tiles * kTile; u += 16)
    for (std::int64_t d = 0; d < vectors.width; d += 16) {
      const T* from = x + u * step + d;
      float* to = packed + u / kTile * tile_floats(vectors.padded) + d * kTile + u % kTile;
      const std::int64_t tall = sizes.sequence - u;
      const std::int64_t wide = vectors.width - d;
      f32x16 square[16];
      if (tall >= 16 && wide >= 16) {
#pragma GCC unroll 16
        for (std::int64_t i = 0; i < 16; ++i) square[i] = load(from + i * step);
      } else {
        for (std::int64_t i = 0; i < 16; ++i) square[i] = i < tall ? load_lanes(from + i * step, wide) : f32x16{};
      }
      transpose_16x16(square);
      for (std::int64_t i = 0; i < smaller(16, wide); ++i) store(to + i * kTile, square[i]);
    }
}

/// Applies the soft cap to scores in powers of two, as q·scale·log2 e gives them; the result is in powers of two as well.
MILLRACE_INLINE Wide cap_scores(Wide score, float soft_cap) {
  const float cap = soft_cap * kLog2E;
  const auto exponential_of = [](Wide x) __attribute__((always_inline)) { return power_of_two(x * kLog2E); };
  return hyperbolic_tangent(score * (1.0F / cap), exponential_of) * cap;
}
/// Derivative of the cap, from the capped score.
MILLRACE_INLINE Wide cap_gradient(Wide capped, float soft_cap) {
  const Wide share = capped * (1.0F / (soft_cap * kLog2E));
  return 1.0F - share * share;
}

/// One tile of scores: queries t in [0, queries), keys u in [0, keys); on the diagonal both count from the same token.
struct ScoreTile {
  std::int64_t queries, keys;
  bool diagonal;      // causal, and queries and keys are the same tokens
  bool same_segment;  // the tile is a single segment, so there is nothing to compare
  bool bounded;       // some query does not see the tile's first keys
  bool ended;         // not causal, and some query does not see the last of 64 keys
  bool picked;        // some query's choice of blocks leaves keys out
  std::int32_t query_segments[kTile], key_segments[kTile];
  std::int32_t first_keys[kTile];  // one per query, if bounded
  std::int32_t end_keys[kTile];    // one past the last key, one per query, if ended
  std::int32_t choices[2][kTile];  // a bit for each of the first and the last 32 keys that the query's choice has, if picked

  /// False if every query sees all 64 keys.
  [[nodiscard, gnu::always_inline]] bool masked() const { return diagonal || !same_segment || bounded || ended || picked; }

  /// Number of keys in a query's row that a product will read: on the diagonal, up to the end of the query's block of rows.
  [[nodiscard, gnu::always_inline]] std::int64_t wanted(std::int64_t t, std::int64_t block_rows) const {
    return diagonal ? smaller(keys, t + block_rows) : keys;
  }
  /// All bits are ones for keys of this vector that query t sees.
  [[nodiscard, gnu::always_inline]] WideMask visible(std::int64_t t, std::int64_t vector) const {
    const WideMask key = lane_numbers() + static_cast<std::int32_t>(kWide * vector);
    WideMask seen = key < static_cast<std::int32_t>(diagonal ? t + 1 : ended ? end_keys[t] : keys);
    if (bounded) seen &= key >= first_keys[t];
    if (picked) {
      static constexpr std::int32_t bits[16] = {1,      1 << 1, 1 << 2,  1 << 3,  1 << 4,  1 << 5,  1 << 6,  1 << 7,
                                                1 << 8, 1 << 9, 1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15};
      WideMask bit;
      __builtin_memcpy(&bit, bits, sizeof bit);
      const auto half = static_cast<std::uint32_t>(choices[kWide * vector / 32][t]);
      seen &= (static_cast<std::int32_t>(half >> (kWide * vector % 32) & 0xffffU) & bit) != 0;
    }
    if (!same_segment) seen &= load_mask(key_segments + kWide * vector) == query_segments[t];
    return seen;
  }

  /// All bits are ones for queries of this vector that see key u.
  [[nodiscard, gnu::always_inline]] WideMask seeing(std::int64_t u, std::int64_t vector) const {
    const auto key = static_cast<std::int32_t>(u);
    const std::int64_t t = kWide * vector;
    WideMask seen = diagonal ? key <= lane_numbers() + static_cast<std::int32_t>(t)
                             : key < (ended ? load_mask(end_keys + t) : WideMask{} + static_cast<std::int32_t>(keys));
    if (bounded) seen &= key >= load_mask(first_keys + t);
    if (picked) seen &= (load_mask(choices[u / 32] + t) & static_cast<std::int32_t>(1U << (u % 32))) != 0;
    if (!same_segment) seen &= load_mask(query_segments + t) == key_segments[u];
    return seen;
  }

 private:
  [[nodiscard, gnu::always_inline]] static WideMask load_mask(const std::int32_t* p) {
    WideMask v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
  }
  [[nodiscard, gnu::always_inline]] static WideMask lane_numbers() {
    static constexpr std::int32_t lanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return load_mask(lanes);
  }
};

/// Calls row(t, Count<n>{}) for every query. The number n of vectors of its row that are worth computing is a constant, so that
/// they stay in registers: all of them, or half or a quarter if the tile is masked and no product reads more.
template <int n>
struct Count {
  static constexpr int value = n;
};
template <bool masked, class Row>
MILLRACE_INLINE void for_each_row(const ScoreTile& tile, std::int64_t block_rows, Row&& row) {
  for (std::int64_t t = 0; t < tile.queries; ++t) {
    if (masked && tile.wanted(t, block_rows) <= kTile / 4)
      row(t, Count<kTile / 4 / kWide>{});
    else if (masked && tile.wanted(t, block_rows) <= kTile / 2)
      row(t, Count<kTile / 2 / kWide>{});
    else
      row(t, Count<kTile / kWide>{});
  }
}

/// First key of its row that a query may see, without regard to segments.
MILLRACE_INLINE std::int64_t first_key(const AttentionSizes& sizes, std::int64_t query) {
  const std::int64_t of_window = query + 1 - sizes.window;
  const std::int64_t of_chunk = query - query % sizes.chunk;
  return of_window > of_chunk ? of_window : of_chunk;
}

/// One past the last key of its row that a query may see, without regard to segments.
MILLRACE_INLINE std::int64_t end_key(const AttentionSizes& sizes, std::int64_t query) {
  if (sizes.causal) return query + 1;
  const std::int64_t of_window = query + sizes.window;
  const std::int64_t of_chunk = query - query % sizes.chunk + sizes.chunk;
  return smaller(sizes.sequence, smaller(of_window, of_chunk));
}

/// Key tiles that a tile of queries may see: [first, last].
MILLRACE_INLINE std::int64_t first_key_tile(const AttentionSizes& sizes, std::int64_t query_tile) {
  return first_key(sizes, query_tile * kTile) / kTile;
}
MILLRACE_INLINE std::int64_t last_key_tile(const AttentionSizes& sizes, std::int64_t query_tile) {
  return (end_key(sizes, smaller((query_tile + 1) * kTile, sizes.sequence) - 1) - 1) / kTile;
}

/// Returns false if no query of the tile sees a key of it, judged by the ranges of their segments.
MILLRACE_INLINE bool describe_tile(const AttentionSizes& sizes, const std::int32_t* segments, std::int64_t query_tile,
                                   std::int64_t key_tile, ScoreTile& tile) {
  tile.queries = smaller(kTile, sizes.sequence - query_tile * kTile);
  tile.keys = smaller(kTile, sizes.sequence - key_tile * kTile);
  tile.diagonal = sizes.causal && query_tile == key_tile;
  tile.ended = !sizes.causal && end_key(sizes, query_tile * kTile) < (key_tile + 1) * kTile;
  for (std::int64_t t = 0; tile.ended && t < tile.queries; ++t)
    tile.end_keys[t] = static_cast<std::int32_t>(end_key(sizes, query_tile * kTile + t) - key_tile * kTile);
  tile.bounded = first_key(sizes, query_tile * kTile + tile.queries - 1) > key_tile * kTile;
  for (std::int64_t t = 0; tile.bounded && t < tile.queries; ++t)
    tile.first_keys[t] = static_cast<std::int32_t>(first_key(sizes, query_tile * kTile + t) - key_tile * kTile);
  const std::int32_t* query = segments + query_tile * kTile;
  const std::int32_t* key = segments + key_tile * kTile;
  std::int32_t query_low = query[0], query_high = query[0], key_low = key[0], key_high = key[0];
  for (std::int64_t t = 0; t < tile.queries; ++t) {
    tile.query_segments[t] = query[t];
    query_low = query[t] < query_low ? query[t] : query_low;
    query_high = query[t] > query_high ? query[t] : query_high;
  }
  for (std::int64_t u = 0; u < kTile; ++u) {
    tile.key_segments[u] = u < tile.keys ? key[u] : key[0];
    key_low = tile.key_segments[u] < key_low ? tile.key_segments[u] : key_low;
    key_high = tile.key_segments[u] > key_high ? tile.key_segments[u] : key_high;
  }
  tile.picked = false;
  tile.same_segment = query_low == query_high && key_low == key_high && query_low == key_low;
  return query_low <= key_high && key_low <= query_high;
}

/// The lowest `count` bits.
MILLRACE_INLINE std::uint64_t lowest_bits(std::int64_t count) { return count >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1; }

/// Adds the choices of blocks to a described tile; `choice` is that of its first query, with `step` words from one query to the next.
/// Returns false if no query chose a block of it.
MILLRACE_INLINE bool describe_choices(const AttentionSizes& sizes, const std::int32_t* choice, std::int64_t step, std::int64_t key_tile,
                                      ScoreTile& tile) {
  const std::int64_t first = key_tile * kTile, end = first + tile.keys;
  const std::uint64_t all = lowest_bits(tile.keys);
  bool any = false;
  tile.picked = false;
  for (std::int64_t t = 0; t < tile.queries; ++t, choice += step) {
    std::uint64_t keys = 0;
    for (std::int64_t block = first / sizes.block; block * sizes.block < end; ++block) {
      if ((static_cast<std::uint32_t>(choice[block / 32]) >> (block % 32) & 1U) == 0) continue;
      const std::int64_t from = block * sizes.block < first ? 0 : block * sizes.block - first;
      const std::int64_t to = smaller(end, (block + 1) * sizes.block) - first;
      keys |= lowest_bits(to) & ~lowest_bits(from);
    }
    tile.choices[0][t] = static_cast<std::int32_t>(keys);
    tile.choices[1][t] = static_cast<std::int32_t>(keys >> 32);
    tile.picked = tile.picked || keys != all;
    any = any || keys != 0;
  }
  return any;
}

/// Calls body(tile, key_tile) for the tiles of keys in [from, end) that some query of the tile sees, in order.
template <class At, class Body>
MILLRACE_INLINE void for_each_key_tile(const At& at, std::int64_t row, std::int64_t head, std::int64_t query_tile, std::int64_t from,
                                       std::int64_t end, Body&& body) {
  const AttentionSizes& sizes = at.sizes;
  const std::int64_t first_vector = (row * sizes.sequence + query_tile * kTile) * sizes.heads + head;
  const std::int64_t first = first_key_tile(sizes, query_tile), last = last_key_tile(sizes, query_tile);
  ScoreTile tile;
  for (std::int64_t key_tile = from < first ? first : from; key_tile < smaller(end, last + 1); ++key_tile) {
    if (!describe_tile(sizes, at.segments + row * sizes.sequence, query_tile, key_tile, tile)) continue;
    if (at.choice != nullptr && !describe_choices(sizes, at.choice + first_vector * sizes.words, sizes.heads * sizes.words, key_tile, tile))
      continue;
    body(tile, key_tile);
  }
}

/// P = 2^(score − log-sum) of scores in powers of two, and dS = P·(dP − delta).
template <bool capped>
MILLRACE_INLINE_UNLESS_MODEL void score_gradient(float soft_cap, Wide log_sum, Wide delta, Wide& score, Wide& d_p) {
  if (capped) score = cap_scores(score, soft_cap);
  const Wide p = power_of_two(score - log_sum);
  d_p = p * (d_p - delta);
  if (capped) d_p *= cap_gradient(score, soft_cap);
  score = p;
}

}  // namespace
}  // namespace millrace::kernels::cpu
