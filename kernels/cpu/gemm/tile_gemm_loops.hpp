#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/base/dtype.hpp"
#include "kernels/cpu/gemm/tile_kernel.hpp"

namespace millrace::kernels::cpu {

/// c [m, n] = op(a) · b + addend: operands bf16, sums fp32, rounded once. Sizes are positive; steps are elements from one stored row to the
/// next.
struct TileGemm {
  std::int64_t m, n, k;
  const BFloat16* a;  // [m, k], or [k, m] where transposed
  std::int64_t a_step;
  bool transpose_a;
  const BFloat16* b;       // op(b) [k, n], packed (kernels/packing.hpp), or as it is if b_step > 0
  std::int64_t b_step;     // 0: packed. Other operands are packed part by part, only for an f32 c without an addend
  const BFloat16* next_b;  // the packed operand of the next product, which has the same k and n: fetched meanwhile; or null
  float* wide;             // c if it is f32, or null
  BFloat16* narrow;        // c if it is bf16, or null
  std::int64_t c_step;
  bool accumulate;                // wide += instead: the sums begin with c
  const float* wide_addend;       // or null
  const BFloat16* narrow_addend;  // at most one of the two
  std::int64_t addend_step;       // 0: a row that is added to every row
};

/// Rows of a that are multiplied by a part of b before the next part of the depth.
inline constexpr std::int64_t kTileRows = 256;
/// At most: the depth of a part of b, and its numbers.
inline constexpr std::int64_t kMostTileDepth = 1024, kMostTileNumbers = std::int64_t{512} * 768;

/// Bytes of the memory that a product needs, aligned to 64: the copy of 32 rows of a, two blocks of sums, and a part of b or of the sums.
inline constexpr std::size_t kTileGemmBytes =
    32 * kMostTileDepth * sizeof(BFloat16) + 2 * 32 * 32 * sizeof(float) + kMostTileNumbers * sizeof(BFloat16);

/// An element of c is one chain over the depth, in order: on tiles in steps of 32 numbers, each with the sum of its even products and that
/// of its odd ones (kernels/cpu/gemm/tile_model.hpp), with dot products in pairs (kernels/cpu/gemm/dot_sums.hpp). Its bits depend on its
/// row of a, its column of b, what is added to it and nothing else.
MILLRACE_TILE_KERNEL(tile_gemm, void(const TileGemm& product, std::byte* memory));

}  // namespace millrace::kernels::cpu
