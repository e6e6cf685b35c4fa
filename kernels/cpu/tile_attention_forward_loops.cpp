#include "kernels/cpu/attention_softmax.hpp"
#include "kernels/cpu/gemm/tile_blocks.hpp"
#include "kernels/cpu/tile_attention_loops.hpp"

namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kHalf = kTile / 2;  // queries whose scores are computed at a time
constexpr std::int64_t kSteps = kTile / 32;

// Memory of a thread for one tile of queries of one head.
struct Workspace {
  BFloat16* q;              // left operand [64, padded]
  float* scores;            // [32, 64]
  BFloat16* probabilities;  // left operand [32, 64]
  SoftmaxState state;
};

MILLRACE_INLINE Workspace lay_out(const AttentionSizes& sizes, float* memory) {
  Workspace work;
  work.state.o = memory;
  work.scores = work.state.o + tile_floats(sizes.value_padded);
  work.state.sums = work.scores + kHalf * kTile;
  work.state.reference = work.state.sums + kTile * 16;
  work.q = reinterpret_cast<BFloat16*>(work.state.reference + kTile);
  work.probabilities = work.q + tile_floats(sizes.padded);
  return work;
}

template <bool masked, bool capped, int vectors>
MILLRACE_INLINE void softmax_half(const AttentionSizes& sizes, const ScoreTile& tile, bool first, std::int64_t half,
                                  const Workspace& work) {
  const float factor = sizes.scale * kLog2E;
  const std::int64_t begin = half * kHalf, end = smaller(begin + kHalf, tile.queries);
  for (std::int64_t t = begin; t < end; ++t) {
    const float* const row = work.scores + (t - begin) * kTile;
    Wide score[vectors];
#pragma GCC unroll 16
    for (int i = 0; i < vectors; ++i) score[i] = load_wide(row + kWide * i) * factor;
    softmax_row<masked, capped>(sizes, tile, first, work.state, t, score);
    BFloat16* const to = work.probabilities + (t - begin) / 16 * kSteps * kTileNumbers + t % 16 * 32;
#pragma GCC unroll 16
    for (int i = 0; i < vectors; i += 2) store_rounded(to + i / 2 * kTileNumbers, score[i], score[i + 1]);
  }
}

template <int vectors>
MILLRACE_INLINE void softmax_half(const AttentionSizes& sizes, const ScoreTile& tile, bool first, std::int64_t half,
                                  const Workspace& work) {
  if (sizes.soft_cap > 0)
    softmax_half<true, true, vectors>(sizes, tile, first, half, work);
  else if (tile.masked())
    softmax_half<true, false, vectors>(sizes, tile, first, half, work);
  else
    softmax_half<false, false, vectors>(sizes, tile, first, half, work);
}

// On the diagonal the first half of the queries sees the first half of the keys.
MILLRACE_INLINE void forward_tile(Tiles& tiles, const AttentionSizes& sizes, const ScoreTile& tile, bool first, const BFloat16* keys,
                                  const BFloat16* values, const Workspace& work) {
  const std::int64_t depth = sizes.padded / 32;
  for (std::int64_t half = 0; half * kHalf < tile.queries; ++half) {
    const std::int64_t steps = tile.diagonal ? half + 1 : kSteps;
    multiply_rows(tiles, {work.q + half * 2 * depth * kTileNumbers, depth, keys, kTile / 16, work.scores, kTile}, 32 * steps, depth, false);
    if (steps == 1)
      softmax_half<kHalf / kWide>(sizes, tile, first, half, work);
    else
      softmax_half<kTile / kWide>(sizes, tile, first, half, work);
    multiply_rows(
        tiles,
        {work.probabilities, kSteps, values, sizes.value_padded / 16, work.state.o + half * kHalf * sizes.value_padded, sizes.value_padded},
        sizes.value_padded, steps, !first);
  }
}

MILLRACE_INLINE void forward_head(Tiles& tiles, const AttentionForward<BFloat16>& at, std::int64_t row, std::int64_t head,
                                  std::int64_t query_tile, const BFloat16* keys, const BFloat16* values, const Workspace& work) {
  const AttentionSizes& sizes = at.sizes;
  const std::int64_t first_token = row * sizes.sequence + query_tile * kTile;
  const std::int64_t queries = smaller(kTile, sizes.sequence - query_tile * kTile);
  const Vectors vectors = queries_of(sizes);
  copy_left({at.q + (first_token * sizes.heads + head) * vectors.width, vectors.step, queries, vectors.width}, kTile, work.q);
  begin_softmax(at, head, queries, work.state);
  bool first = true;
  for_each_key_tile(
      at, row, head, query_tile, 0, sizes.tiles, [&](const ScoreTile& tile, std::int64_t key_tile) __attribute__((always_inline)) {
        forward_tile(tiles, sizes, tile, first, keys + key_tile * tile_floats(sizes.padded),
                     values + key_tile * tile_floats(sizes.value_padded), work);
        first = false;
      });
  finish_softmax(at, first_token, head, queries, work.state);
}

}  // namespace

namespace MILLRACE_TILES {

// Keys are right operands [padded, 64] and values right operands [64, value_padded], one for each tile.
void tile_attention_pack(const AttentionForward<BFloat16>& at, std::int64_t row, std::int64_t kv_head, float* packed) {
  const AttentionSizes& sizes = at.sizes;
  const std::int64_t vector = row * sizes.sequence * sizes.kv_heads + kv_head;  // of the row's first token
  const Vectors keys = keys_of(sizes), values = values_of(sizes);
  auto* to = reinterpret_cast<BFloat16*>(packed);
  for (std::int64_t first = 0; first < sizes.sequence; first += kTile, to += tile_floats(keys.padded))
    copy_transposed_right({at.k + vector * keys.width + first * keys.step, keys.step, sizes.sequence - first, keys.width}, kTile, to);
  for (std::int64_t first = 0; first < sizes.sequence; first += kTile, to += tile_floats(values.padded))
    copy_right({at.v + vector * values.width + first * values.step, values.step, sizes.sequence - first, values.width}, kTile, to);
}

void tile_attention_forward(const AttentionForward<BFloat16>& at, std::int64_t row, std::int64_t kv_head, std::int64_t tile,
                            const float* packed, float* memory) {
  Tiles tiles;
  const Workspace work = lay_out(at.sizes, memory);
  const auto* keys = reinterpret_cast<const BFloat16*>(packed);
  const std::int64_t group = at.sizes.heads / at.sizes.kv_heads;
  for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
    forward_head(tiles, at, row, head, tile, keys, keys + head_floats(at.sizes, at.sizes.padded), work);
}

}  // namespace MILLRACE_TILES
}  // namespace millrace::kernels::cpu
