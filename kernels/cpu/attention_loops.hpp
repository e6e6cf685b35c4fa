#pragma once

#include <cstdint>

#include "kernels/base/dtype.hpp"
#include "kernels/cpu/simd/isa.hpp"

/// Loops of kernels/attention.hpp: tiles of 64 queries against tiles of 64 keys, all arithmetic in fp32 on packed copies.
/// (Dao, FlashAttention-2, arXiv 2307.08691, algorithms 1 and 2.)
namespace millrace::kernels::cpu {

inline constexpr std::int64_t kTile = 64;

/// Sizes of one call, in elements. Packed head vectors are padded with zeros to `padded`, those of values and results to `value_padded`.
struct AttentionSizes {
  std::int64_t rows;          // sequences
  std::int64_t sequence;      // S
  std::int64_t heads;         // H
  std::int64_t kv_heads;      // K
  std::int64_t width;         // D
  std::int64_t padded;        // D rounded up to 16
  std::int64_t value_width;   // Dv
  std::int64_t value_padded;  // Dv rounded up to 16
  std::int64_t tiles;         // ⌈S/64⌉
  float scale;
  float soft_cap;       // 0: no cap
  std::int64_t window;  // number of keys that a query sees; S: no limit
  std::int64_t chunk;   // a query sees no key before the last multiple of this; S: no limit
  bool causal;
  std::int64_t block;  // keys per block of a choice; 0: there is none
  std::int64_t words;  // of a query's choice
};

/// Number of floats of packed operands whose vectors are padded to this width: tile_floats for the 64 head vectors of a tile, head_floats
/// for all vectors of one row and key/value head.
#define MILLRACE_SIZE [[nodiscard, gnu::always_inline, maybe_unused]] static inline std::int64_t
MILLRACE_SIZE tile_floats(std::int64_t padded) { return kTile * padded; }
MILLRACE_SIZE head_floats(const AttentionSizes& sizes, std::int64_t padded) { return sizes.tiles * tile_floats(padded); }
/// packed_floats: keys and values of one head, packed for the forward: Kᵀ by tiles [tiles, D, 64], then V [S, value_padded]. The other
/// two are a thread's scratch. Forward: q, o, scores, sums, references. Backward: Kᵀ, Vᵀ, K, dK, dV of a head; q, dO, dq; two tiles
/// of scores; log-sums and deltas.
MILLRACE_SIZE packed_floats(const AttentionSizes& sizes) {
  return head_floats(sizes, sizes.padded) + head_floats(sizes, sizes.value_padded);
}
MILLRACE_SIZE forward_floats(const AttentionSizes& sizes) {
  return tile_floats(sizes.padded) + tile_floats(sizes.value_padded) + kTile * kTile + kTile * 16 + kTile;
}
MILLRACE_SIZE backward_floats(const AttentionSizes& sizes) {
  return 3 * head_floats(sizes, sizes.padded) + 2 * head_floats(sizes, sizes.value_padded) + 2 * tile_floats(sizes.padded) +
         tile_floats(sizes.value_padded) + 2 * kTile * kTile + 2 * kTile;
}
#undef MILLRACE_SIZE

template <class T>
struct AttentionForward {
  AttentionSizes sizes;
  const T* q;
  const T* k;
  const T* v;
  const std::int32_t* segments;
  const float* sinks;          // one per query head, or null
  const std::int32_t* choice;  // [T, H, words], or null
  T* o;
  float* log_sum_exp;
};

template <class T>
struct AttentionBackward {
  AttentionSizes sizes;
  const T* d_o;
  const T* q;
  const T* k;
  const T* v;
  const T* o;
  const float* log_sum_exp;
  const std::int32_t* segments;
  const std::int32_t* choice;  // [T, H, words], or null
  T* dq;
  T* dk;
  T* dv;
};

/// Packs the keys and values of one row and key/value head into `packed`.
MILLRACE_CPU_KERNEL(attention_pack_f32, void(const AttentionForward<float>& at, std::int64_t row, std::int64_t kv_head, float* packed));
MILLRACE_CPU_KERNEL(attention_pack_bf16, void(const AttentionForward<BFloat16>& at, std::int64_t row, std::int64_t kv_head, float* packed));

/// Computes one tile of queries of all heads that share the key/value head in `packed`. `memory` has forward_floats.
MILLRACE_CPU_KERNEL(attention_forward_f32, void(const AttentionForward<float>& at, std::int64_t row, std::int64_t kv_head,
                                                std::int64_t tile, const float* packed, float* memory));
MILLRACE_CPU_KERNEL(attention_forward_bf16, void(const AttentionForward<BFloat16>& at, std::int64_t row, std::int64_t kv_head,
                                                 std::int64_t tile, const float* packed, float* memory));

/// Computes all gradients of one row and key/value head. `memory` has backward_floats.
MILLRACE_CPU_KERNEL(attention_backward_f32,
                    void(const AttentionBackward<float>& at, std::int64_t row, std::int64_t kv_head, float* memory));
MILLRACE_CPU_KERNEL(attention_backward_bf16,
                    void(const AttentionBackward<BFloat16>& at, std::int64_t row, std::int64_t kv_head, float* memory));

}  // namespace millrace::kernels::cpu
