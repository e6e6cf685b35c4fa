#pragma once

#include <cstdint>

#include "kernels/base/dtype.hpp"
#include "kernels/cpu/simd/isa.hpp"

/// Scores of kernels/choose_keys.hpp: one query against tiles of 64 keys of its row, in fp32 on packed copies.
namespace millrace::kernels::cpu {

inline constexpr std::int64_t kIndexTile = 64;

template <class T>
struct IndexerScores {
  const T *q, *k;
  const float* weights;
  std::int64_t sequence, heads, width;
  float scale;
};

/// Packs the keys of tiles [begin, end) of a row as columns: [tiles, D, 64], with zeros behind the row's last key.
MILLRACE_CPU_KERNEL(pack_index_keys_f32,
                    void(const IndexerScores<float>& at, std::int64_t row, std::int64_t begin, std::int64_t end, float* packed));
MILLRACE_CPU_KERNEL(pack_index_keys_bf16,
                    void(const IndexerScores<BFloat16>& at, std::int64_t row, std::int64_t begin, std::int64_t end, float* packed));

/// scores[u] of token t with the keys of tiles [begin, end) of its row. memory: H · (D + 64) floats.
MILLRACE_CPU_KERNEL(index_scores_f32, void(const IndexerScores<float>& at, std::int64_t t, std::int64_t begin, std::int64_t end,
                                           const float* packed, float* memory, float* scores));
MILLRACE_CPU_KERNEL(index_scores_bf16, void(const IndexerScores<BFloat16>& at, std::int64_t t, std::int64_t begin, std::int64_t end,
                                            const float* packed, float* memory, float* scores));

}  // namespace millrace::kernels::cpu
