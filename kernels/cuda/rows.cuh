#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/launch.cuh"

/// Kernels with a sum over each row: `Lanes` threads per row, which are a warp of the block or all of it.
namespace millrace::kernels::cuda {

inline constexpr std::int64_t kWarpWidth = 1024;  // a warp handles a row of up to this many columns

template <int Lanes>
__device__ __forceinline__ std::int64_t row_of_lanes() {
  return static_cast<std::int64_t>(blockIdx.x) * (kThreads / Lanes) + threadIdx.x / Lanes;
}

/// Sum over the lanes of a row, returned to all of them.
template <int Lanes>
__device__ __forceinline__ float row_sum(float x) {
  static_assert(Lanes == 32 || Lanes == kThreads);
  if constexpr (Lanes == 32)
    return warp_sum(x);
  else
    return block_sum<Lanes>(x);
}

/// Calls body(std::integral_constant<int, Lanes>, blocks).
template <class Body>
void with_lanes(std::int64_t rows, std::int64_t width, Body&& body) {
  if (rows <= 0 || width <= 0) return;
  if (width <= kWarpWidth)
    body(std::integral_constant<int, 32>{}, blocks_of(rows, kThreads / 32));
  else
    body(std::integral_constant<int, kThreads>{}, blocks_of(rows, 1));
}

}  // namespace millrace::kernels::cuda
