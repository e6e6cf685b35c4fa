#include "kernels/cpu/choose_keys_loops.hpp"

#include "kernels/cpu/listed_rows.hpp"

namespace millrace::kernels::cpu {
namespace {

template <class T>
MILLRACE_INLINE void pack_index_keys(const IndexerScores<T>& at, std::int64_t row, std::int64_t begin, std::int64_t end, float* packed) {
  for (std::int64_t u = begin * kIndexTile; u < end * kIndexTile; u += 16)
    for (std::int64_t d = 0; d < at.width; d += 16) {
      const T* from = at.k + (row * at.sequence + u) * at.width + d;
      float* to = packed + (u / kIndexTile * at.width + d) * kIndexTile + u % kIndexTile;
      f32x16 square[16];
      for (std::int64_t i = 0; i < 16; ++i) square[i] = u + i < at.sequence ? load_lanes(from + i * at.width, at.width - d) : f32x16{};
      transpose_16x16(square);
      for (std::int64_t i = 0; i < smaller(16, at.width - d); ++i) store(to + i * kIndexTile, square[i]);
    }
}

template <class T>
MILLRACE_INLINE void index_scores(const IndexerScores<T>& at, std::int64_t t, std::int64_t begin, std::int64_t end, const float* packed,
                                  float* memory, float* scores) {
  float *products = memory, *q = products + at.heads * kIndexTile;
  const std::int64_t numbers = at.heads * at.width;
  for (std::int64_t i = 0; i < numbers; i += 16) store_lanes(q + i, load_lanes(at.q + t * numbers + i, numbers - i), numbers - i);
  const float* weights = at.weights + t * at.heads;
  for (std::int64_t tile = begin; tile < end; ++tile) {
    product<false>(Part::whole, at.heads, kIndexTile, at.width,
                   {q, at.width, packed + tile * at.width * kIndexTile, kIndexTile, products, kIndexTile, false});
    f32x16 sum[kIndexTile / 16] = {};
    for (std::int64_t h = 0; h < at.heads; ++h)
#pragma GCC unroll 4
      for (int n = 0; n < kIndexTile / 16; ++n)
        sum[n] = fused(splat(weights[h]), positive_part(load(products + h * kIndexTile + 16 * n)), sum[n]);
    for (int n = 0; n < kIndexTile / 16; ++n) store(scores + tile * kIndexTile + 16 * n, sum[n] * at.scale);
  }
}

}  // namespace

namespace MILLRACE_ISA {

void pack_index_keys_f32(const IndexerScores<float>& at, std::int64_t row, std::int64_t begin, std::int64_t end, float* packed) {
  pack_index_keys(at, row, begin, end, packed);
}
void pack_index_keys_bf16(const IndexerScores<BFloat16>& at, std::int64_t row, std::int64_t begin, std::int64_t end, float* packed) {
  pack_index_keys(at, row, begin, end, packed);
}
void index_scores_f32(const IndexerScores<float>& at, std::int64_t t, std::int64_t begin, std::int64_t end, const float* packed,
                      float* memory, float* scores) {
  index_scores(at, t, begin, end, packed, memory, scores);
}
void index_scores_bf16(const IndexerScores<BFloat16>& at, std::int64_t t, std::int64_t begin, std::int64_t end, const float* packed,
                       float* memory, float* scores) {
  index_scores(at, t, begin, end, packed, memory, scores);
}

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu
