#pragma once

#include <cstdint>

#include "kernels/cpu/gemm/sum_block.hpp"
#if defined(MILLRACE_MODEL_TILES)
#include "kernels/cpu/gemm/tile_model.hpp"
#else
#include "kernels/cpu/gemm/amx_tiles.hpp"
#endif

/// Blocks of sums in tile registers 0 to 3, two by two; registers 4 to 7 hold the operands of a step. Only for sources of
/// millrace_tile_kernel().
namespace millrace::kernels::cpu {
namespace {

constexpr bool kReadsAllRows = true, kFetchesAll = true, kFinishesAtOnce = false;
constexpr std::int64_t kTileDepth = 512, kTileWidth = 768;

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

/// The tiles multiply while the vector units do what each step asks for.
template <class Each>
MILLRACE_INLINE void multiply_sums(Tiles& tiles, const SumBlock& x, Each&& each) {
  begin_sums(tiles, x.from, x.from_step);
  const BFloat16 *a = x.a, *b = x.b;
  const std::int64_t a_bytes = 32 * sizeof(BFloat16), b_bytes = x.b_pair * static_cast<std::int64_t>(sizeof(BFloat16));
  const std::int64_t steps = x.steps(), rows = (32 + steps - 1) / steps;
  for (std::int64_t step = 0; step < steps; ++step, a += x.a_step, b += x.b_step) {
    tiles.load<4>(a, a_bytes);
    tiles.load<6>(b, b_bytes);
    tiles.multiply_add<0, 4, 6>();
    tiles.load<7>(b + x.b_right, b_bytes);
    tiles.multiply_add<1, 4, 7>();
    tiles.load<5>(a + x.a_lower, a_bytes);
    tiles.multiply_add<2, 5, 6>();
    tiles.multiply_add<3, 5, 7>();
    each(Part{step, step + 1}, Part{step * rows, step * rows + rows});
  }
  store_sums(tiles, x.to, x.to_step);
}

}  // namespace
}  // namespace millrace::kernels::cpu
