#pragma once

#include <cstdint>

#include "kernels/base/dtype.hpp"
#include "kernels/cpu/simd/isa.hpp"

/// Loops of kernels/indexer_loss.hpp over tokens.
namespace millrace::kernels::cpu {

template <class T>
struct IndexerLossTokens {
  const T *q, *k, *index_q, *index_k;
  const float* index_weights;
  const std::int32_t *segments, *keys;                    // keys: null if L is 0
  std::int64_t sequence, heads, kv_heads, width, length;  // S, H, K, D, L
  std::int64_t index_heads, index_width;                  // Hi, Di
  float scale, index_scale;
};

/// Where the gradients go.
template <class T>
struct IndexerLossGradients {
  T* d_index_q;
  float* d_index_weights;
  float* key_sums;  // f32 [S, Di up to a multiple of 16]: += those of the token's row
  float factor;
};

/// The number of keys of a token at most, and the widths of vectors, up to multiples of 16. static: sources of every instruction set
/// include it.
[[nodiscard]] static constexpr std::int64_t padded_by_16(std::int64_t count) { return (count + 15) / 16 * 16; }

/// The token's term of the loss. `memory`: three times as many floats as its keys, its keys, and one vector of either kind.
MILLRACE_CPU_KERNEL(indexer_term_f32, double(const IndexerLossTokens<float>& at, std::int64_t t, float* memory));
MILLRACE_CPU_KERNEL(indexer_term_bf16, double(const IndexerLossTokens<BFloat16>& at, std::int64_t t, float* memory));
/// The same, and the gradients. `products`: Hi times as many floats as the token's keys.
MILLRACE_CPU_KERNEL(indexer_gradient_f32, double(const IndexerLossTokens<float>& at, std::int64_t t, const IndexerLossGradients<float>& to,
                                                 float* memory, float* products));
MILLRACE_CPU_KERNEL(indexer_gradient_bf16, double(const IndexerLossTokens<BFloat16>& at, std::int64_t t,
                                                  const IndexerLossGradients<BFloat16>& to, float* memory, float* products));

}  // namespace millrace::kernels::cpu
