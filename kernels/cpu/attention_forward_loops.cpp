#include "kernels/cpu/attention_loops.hpp"
#include "kernels/cpu/attention_softmax.hpp"
#include "kernels/cpu/tile_product.hpp"

namespace millrace::kernels::cpu {
namespace {

// Memory of a thread for one tile of queries of one head.
struct Workspace {
  float* q;       // [64, padded], times scale·log2 e: scores are exponents of two
  float* scores;  // [64, 64], then the probabilities
  SoftmaxState state;
};

MILLRACE_INLINE Workspace lay_out(const AttentionSizes& sizes, float* memory) {
  Workspace work;
  work.q = memory;
  work.state.o = work.q + tile_floats(sizes.padded);
  work.scores = work.state.o + tile_floats(sizes.value_padded);
  work.state.sums = work.scores + kTile * kTile;
  work.state.reference = work.state.sums + kTile * 16;
  return work;
}

template <bool masked, bool capped>
MILLRACE_INLINE void softmax_tile(const AttentionSizes& sizes, const ScoreTile& tile, bool first, const Workspace& work) {
  for_each_row<masked>(
      tile, kBlockRows, [&]<int vectors>(std::int64_t t, Count<vectors>) __attribute__((always_inline)) {
        float* const row = work.scores + t * kTile;
        Wide score[vectors];
#pragma GCC unroll 16
        for (int i = 0; i < vectors; ++i) score[i] = load_wide(row + kWide * i);
        softmax_row<masked, capped>(sizes, tile, first, work.state, t, score);
#pragma GCC unroll 16
        for (int i = 0; i < vectors; ++i) store_wide(row + kWide * i, score[i]);
      });
}

template <class T>
MILLRACE_INLINE void forward_head(const AttentionForward<T>& at, std::int64_t row, std::int64_t head, std::int64_t query_tile,
                                  const float* keys, const float* values, const Workspace& work) {
  const AttentionSizes& sizes = at.sizes;
  const std::int64_t first_token = row * sizes.sequence + query_tile * kTile;
  const std::int64_t queries = smaller(kTile, sizes.sequence - query_tile * kTile);
  pack_rows(at.q + (first_token * sizes.heads + head) * sizes.width, queries_of(sizes), queries, sizes.scale * kLog2E, work.q);
  begin_softmax(at, head, queries, work.state);
  bool first = true;
  for_each_key_tile(
      at, row, head, query_tile, 0, sizes.tiles, [&](const ScoreTile& tile, std::int64_t key_tile) __attribute__((always_inline)) {
        product<false>(tile.diagonal ? Part::columns_to_diagonal : Part::whole, queries, 16 * vectors_of(tile.keys), sizes.width,
                       {work.q, sizes.padded, keys + key_tile * tile_floats(sizes.padded), kTile, work.scores, kTile, false});
        if (sizes.soft_cap > 0)
          softmax_tile<true, true>(sizes, tile, first, work);
        else if (tile.masked())
          softmax_tile<true, false>(sizes, tile, first, work);
        else
          softmax_tile<false, false>(sizes, tile, first, work);
        product<false>(tile.diagonal ? Part::depth_to_diagonal : Part::whole, queries, sizes.value_padded, tile.keys,
                       {work.scores, kTile, values + key_tile * tile_floats(sizes.value_padded), sizes.value_padded, work.state.o,
                        sizes.value_padded, !first});
        first = false;
      });
  finish_softmax(at, first_token, head, queries, work.state);
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
