#pragma once

#include <cstdint>

#include "kernels/cpu/gemm/tiles.hpp"

/// A block of 32 x 32 sums in tile registers 0 to 3, two by two; registers 4 to 7 hold the operands of a step. Only for sources of
/// millrace_tile_kernel().
namespace millrace::kernels::cpu {
namespace {

/// The sums begin with those at `from`, `step` floats from one row to the next; with zero if it is null.
MILLRACE_INLINE void begin_sums(Tiles& tiles, const float* from, std::int64_t step) {
  if (from == nullptr) {
    tiles.clear<0>();
    tiles.clear<1>();
    tiles.clear<2>();
    tiles.clear<3>();
    return;
  }
  const std::int64_t bytes = step * static_cast<std::int64_t>(sizeof(float));
  tiles.load<0>(from, bytes);
  tiles.load<1>(from + 16, bytes);
  tiles.load<2>(from + 16 * step, bytes);
  tiles.load<3>(from + 16 * step + 16, bytes);
}

MILLRACE_INLINE void store_sums(const Tiles& tiles, float* to, std::int64_t step) {
  const std::int64_t bytes = step * static_cast<std::int64_t>(sizeof(float));
  tiles.store<0>(to, bytes);
  tiles.store<1>(to + 16, bytes);
  tiles.store<2>(to + 16 * step, bytes);
  tiles.store<3>(to + 16 * step + 16, bytes);
}

/// Adds one step of 32 numbers: the tiles of 16 rows at `upper` and `lower`, each 1 KiB, times those of 16 columns at `left` and `right`,
/// `b_bytes` bytes from one pair of their rows to the next.
MILLRACE_INLINE void add_step(Tiles& tiles, const BFloat16* upper, const BFloat16* lower, const BFloat16* left, const BFloat16* right,
                              std::int64_t b_bytes) {
  tiles.load<4>(upper, 64);
  tiles.load<6>(left, b_bytes);
  tiles.multiply_add<0, 4, 6>();
  tiles.load<7>(right, b_bytes);
  tiles.multiply_add<1, 4, 7>();
  tiles.load<5>(lower, 64);
  tiles.multiply_add<2, 5, 6>();
  tiles.multiply_add<3, 5, 7>();
}

}  // namespace
}  // namespace millrace::kernels::cpu
