#include "kernels/cpu/attention_loops.hpp"
#include "kernels/cpu/attention_tile.hpp"

namespace millrace::kernels::cpu {
namespace {

// A row's reference is updated to its largest score only if that exceeds the reference by more than this, in powers of two: it
// costs a few bits of the probabilities' range, and rows hardly ever have to be rescaled. The decision depends only on the row's
// own scores.
constexpr float kSlack = 8.0F;

// Memory of a thread for one tile of queries of one head.
struct Workspace {
  float* q;          // [64, padded], times scale·log2 e: scores are exponents of two
  float* o;          // [64, value_padded], not yet divided by the sums
  float* scores;     // [64, 64], then the probabilities
  float* sums;       // [64, 16], one sum per lane of a register
  float* reference;  // [64], subtracted from scores: within kSlack of the largest so far
};

MILLRACE_INLINE Workspace lay_out(const AttentionSizes& sizes, float* memory) {
  Workspace work;
  work.q = memory;
  work.o = work.q + tile_floats(sizes.padded);
  work.scores = work.o + tile_floats(sizes.value_padded);
  work.sums = work.scores + kTile * kTile;
  work.reference = work.sums + kTile * 16;
  return work;
}

MILLRACE_INLINE void scale_row(float* row, std::int64_t width, Wide factor) {
  for (std::int64_t d = 0; d < width; d += kWide) store_wide(row + d, load_wide(row + d) * factor);
}

// Turns a row of scores into probabilities relative to the row's reference; rescales sums and outputs when the reference rises.
template <bool masked, bool capped, int vectors>
MILLRACE_INLINE void softmax_row(const AttentionSizes& sizes, const ScoreTile& tile, bool first, const Workspace& work, std::int64_t t) {
  float* row = work.scores + t * kTile;
  Wide score[vectors];
  Wide largest[2] = {wide(kMinusInfinity), wide(kMinusInfinity)};
#pragma GCC unroll 16
  for (int i = 0; i < vectors; ++i) {
    score[i] = load_wide(row + kWide * i);
    if (capped) score[i] = cap_scores(score[i], sizes.soft_cap);
    if (masked) score[i] = tile.visible(t, i) ? score[i] : wide(kMinusInfinity);
    largest[i % 2] = largest[i % 2] > score[i] ? largest[i % 2] : score[i];
  }
  const float now = largest_lane(largest[0] > largest[1] ? largest[0] : largest[1]);
  float reference = work.reference[t];
  if (now > reference + kSlack) {
    const float before = reference;
    reference = now;
    const Wide shrink = power_of_two(wide(before - reference));
    store_wide(work.sums + 16 * t, load_wide(work.sums + 16 * t) * shrink);
    if (!first) scale_row(work.o + t * sizes.value_padded, sizes.value_padded, shrink);
    work.reference[t] = reference;
  }
  const Wide base = wide(reference == kMinusInfinity ? 0.0F : reference);  // nothing seen yet: keep −∞ − base at −∞
  Wide sum = load_wide(work.sums + 16 * t);
#pragma GCC unroll 16
  for (int i = 0; i < vectors; ++i) {
    const Wide p = power_of_two(score[i] - base);
    store_wide(row + kWide * i, p);
    sum += p;
  }
  store_wide(work.sums + 16 * t, sum);
}

template <bool masked, bool capped>
MILLRACE_INLINE void softmax_tile(const AttentionSizes& sizes, const ScoreTile& tile, bool first, const Workspace& work) {
  for_each_row<masked>(
      tile, [&]<int vectors>(std::int64_t t, Count<vectors>)
                __attribute__((always_inline)) { softmax_row<masked, capped, vectors>(sizes, tile, first, work, t); });
}

template <class T>
MILLRACE_INLINE void finish(const AttentionForward<T>& at, std::int64_t first_token, std::int64_t head, std::int64_t queries,
                            const Workspace& work) {
  const AttentionSizes& sizes = at.sizes;
  for (std::int64_t t = 0; t < queries; ++t) {
    const float sum = sum_of_lanes(load_wide(work.sums + 16 * t));
    const std::int64_t vector = (first_token + t) * sizes.heads + head;
    const float inverse = 1.0F / sum;
    for (std::int64_t d = 0; d < sizes.value_width; d += 16)
      store_lanes(at.o + vector * sizes.value_width + d, load(work.o + t * sizes.value_padded + d) * inverse, sizes.value_width - d);
    at.log_sum_exp[vector] = work.reference[t] * kLn2 + __builtin_logf(sum);
  }
}

template <class T>
MILLRACE_INLINE void forward_head(const AttentionForward<T>& at, std::int64_t row, std::int64_t head, std::int64_t query_tile,
                                  const float* keys, const float* values, const Workspace& work) {
  const AttentionSizes& sizes = at.sizes;
  const std::int64_t first_token = row * sizes.sequence + query_tile * kTile;
  const std::int64_t queries = smaller(kTile, sizes.sequence - query_tile * kTile);
  pack_rows(at.q + (first_token * sizes.heads + head) * sizes.width, queries_of(sizes), queries, sizes.scale * kLog2E, work.q);
  // A sink acts as a first score that comes before all others and has no value.
  f32x16 sum{};
  if (at.sinks != nullptr) sum[0] = 1.0F;
  for (std::int64_t t = 0; t < queries; ++t) {
    store(work.sums + 16 * t, sum);
    work.reference[t] = at.sinks != nullptr ? at.sinks[head] * kLog2E : kMinusInfinity;
  }
  bool first = true;
  ScoreTile tile;
  for (std::int64_t key_tile = first_key_tile(sizes, query_tile); key_tile <= last_key_tile(sizes, query_tile); ++key_tile) {
    if (!describe_tile(sizes, at.segments + row * sizes.sequence, query_tile, key_tile, tile)) continue;
    if (at.choice != nullptr &&
        !describe_choices(sizes, at.choice + (first_token * sizes.heads + head) * sizes.words, sizes.heads * sizes.words, key_tile, tile))
      continue;
    product<false>(tile.diagonal ? Part::columns_to_diagonal : Part::whole, queries, 16 * vectors_of(tile.keys), sizes.width,
                   {work.q, sizes.padded, keys + key_tile * tile_floats(sizes.padded), kTile, work.scores, kTile, false});
    if (sizes.soft_cap > 0)
      softmax_tile<true, true>(sizes, tile, first, work);
    else if (tile.masked())
      softmax_tile<true, false>(sizes, tile, first, work);
    else
      softmax_tile<false, false>(sizes, tile, first, work);
    product<false>(
        tile.diagonal ? Part::depth_to_diagonal : Part::whole, queries, sizes.value_padded, tile.keys,
        {work.scores, kTile, values + key_tile * tile_floats(sizes.value_padded), sizes.value_padded, work.o, sizes.value_padded, !first});
    first = false;
  }
  finish(at, first_token, head, queries, work);
}

template <class T>
MILLRACE_INLINE void forward(const AttentionForward<T>& at, std::int64_t row, std::int64_t kv_head, std::int64_t tile, const float* packed,
                             float* memory) {
  const Workspace work = lay_out(at.sizes, memory);
  const std::int64_t group = at.sizes.heads / at.sizes.kv_heads;
  for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
    forward_head(at, row, head, tile, packed, packed + head_floats(at.sizes, at.sizes.padded), work);
}

template <class T>
MILLRACE_INLINE void pack(const AttentionForward<T>& at, std::int64_t row, std::int64_t kv_head, float* packed) {
  const AttentionSizes& sizes = at.sizes;
  const std::int64_t vector = row * sizes.sequence * sizes.kv_heads + kv_head;  // of the row's first token
  pack_columns(at.k + vector * sizes.width, keys_of(sizes), sizes, packed);
  pack_rows(at.v + vector * sizes.value_width, values_of(sizes), sizes.sequence, 1.0F, packed + head_floats(sizes, sizes.padded));
}

}  // namespace

namespace MILLRACE_ISA {

void attention_pack_f32(const AttentionForward<float>& at, std::int64_t row, std::int64_t kv_head, float* packed) {
  pack(at, row, kv_head, packed);
}
void attention_pack_bf16(const AttentionForward<BFloat16>& at, std::int64_t row, std::int64_t kv_head, float* packed) {
  pack(at, row, kv_head, packed);
}
void attention_forward_f32(const AttentionForward<float>& at, std::int64_t row, std::int64_t kv_head, std::int64_t tile,
                           const float* packed, float* memory) {
  forward(at, row, kv_head, tile, packed, memory);
}
void attention_forward_bf16(const AttentionForward<BFloat16>& at, std::int64_t row, std::int64_t kv_head, std::int64_t tile,
                            const float* packed, float* memory) {
  forward(at, row, kv_head, tile, packed, memory);
}

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu
