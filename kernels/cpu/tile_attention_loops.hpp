#pragma once

#include <cstdint>

#include "kernels/cpu/attention_loops.hpp"
#include "kernels/cpu/gemm/tile_kernel.hpp"

/// Loops of kernels/attention.hpp for bf16 on tile registers: products of bf16 operands with fp32 sums. Scores are multiplied by the scale
/// in fp32; probabilities and the gradients of scores are rounded to bf16 when they are multiplied, all else is fp32.
namespace millrace::kernels::cpu {

/// Head vectors are padded to a multiple of this.
inline constexpr std::int64_t kTileAttentionWidth = 32;

#define MILLRACE_SIZE [[nodiscard, gnu::always_inline, maybe_unused]] static inline std::int64_t
/// As in attention_loops.hpp; two bf16 count as one float. packed_floats: keys and values of one head for the forward. The other two are a
/// thread's scratch. Forward: q, o, half a tile of scores, its probabilities, sums, references. Backward: keys, values, keys transposed,
/// dK, dV, dQ of a head; its log-sums and deltas; q and dO of a tile, each twice; half tiles of scores and dP; P and dS, and dS once more.
MILLRACE_SIZE tile_packed_floats(const AttentionSizes& sizes) {
  return (head_floats(sizes, sizes.padded) + head_floats(sizes, sizes.value_padded)) / 2;
}
MILLRACE_SIZE tile_forward_floats(const AttentionSizes& sizes) {
  return tile_floats(sizes.padded) / 2 + tile_floats(sizes.value_padded) + kTile * kTile / 2 + kTile * kTile / 4 + kTile * 16 + kTile;
}
MILLRACE_SIZE tile_backward_floats(const AttentionSizes& sizes) {
  return head_floats(sizes, sizes.padded) * 3 + head_floats(sizes, sizes.value_padded) / 2 * 3 + 2 * sizes.tiles * kTile +
         tile_floats(sizes.padded) + tile_floats(sizes.value_padded) + kTile * kTile + 3 * kTile * kTile / 2;
}
#undef MILLRACE_SIZE

MILLRACE_TILE_KERNEL(tile_attention_pack,
                     void(const AttentionForward<BFloat16>& at, std::int64_t row, std::int64_t kv_head, float* packed));
MILLRACE_TILE_KERNEL(tile_attention_forward, void(const AttentionForward<BFloat16>& at, std::int64_t row, std::int64_t kv_head,
                                                  std::int64_t tile, const float* packed, float* memory));
MILLRACE_TILE_KERNEL(tile_attention_backward,
                     void(const AttentionBackward<BFloat16>& at, std::int64_t row, std::int64_t kv_head, float* memory));

}  // namespace millrace::kernels::cpu
