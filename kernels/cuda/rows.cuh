#pragma once

#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "kernels/cuda/vector.cuh"

/// Kernels with a sum over each row: `Lanes` threads per row, which are a warp of the block or all of it.
namespace millrace::kernels::cuda {

inline constexpr std::int64_t kWarpWidth = 1024;  // a warp handles a row of up to this many columns

template <int Lanes>
__device__ __forceinline__ std::int64_t row_of_lanes() {
  return static_cast<std::int64_t>(blockIdx.x) * (kThreads / Lanes) + threadIdx.x / Lanes;
}

/// The place of this thread among the lanes of its row.
template <int Lanes>
__device__ __forceinline__ int lane_of_row() {
  return static_cast<int>(threadIdx.x) % Lanes;
}

/// Calls body(d) for this thread's packs of T of a row, which begin at column d.
template <int Lanes, class T, class Body>
__device__ __forceinline__ void for_row_packs(std::int64_t width, Body&& body) {
  for (std::int64_t d = lane_of_row<Lanes>() * kPack<T>; d < width; d += Lanes * kPack<T>) body(d);
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

/// Σ x² over a row, returned to all of its lanes.
template <int Lanes, bool Whole, class T>
__device__ __forceinline__ float row_squares(const T* x, std::int64_t width) {
  constexpr int n = kPack<T>;
  float squares = 0;
  for_row_packs<Lanes, T>(width, [&](std::int64_t d) {
    float value[n];
    load_pack<Whole, n>(x + d, width - d, value);
#pragma unroll
    for (int k = 0; k < n; ++k) squares += value[k] * value[k];
  });
  return row_sum<Lanes>(squares);
}

/// ⟨x, y⟩ of a row, returned to all of its lanes.
template <int Lanes, bool Whole, class T>
__device__ __forceinline__ float row_product(const T* x, const T* y, std::int64_t width) {
  constexpr int n = kPack<T>;
  float sum = 0;
  for_row_packs<Lanes, T>(width, [&](std::int64_t d) {
    float left[n], right[n];
    load_pack<Whole, n>(x + d, width - d, left);
    load_pack<Whole, n>(y + d, width - d, right);
#pragma unroll
    for (int i = 0; i < n; ++i) sum += left[i] * right[i];
  });
  return row_sum<Lanes>(sum);
}

/// y = x · by, on all lanes of a row.
template <int Lanes, bool Whole, class T>
__device__ __forceinline__ void scale_row(const T* x, float by, std::int64_t width, T* y) {
  constexpr int n = kPack<T>;
  for_row_packs<Lanes, T>(width, [&](std::int64_t d) {
    float value[n];
    load_pack<Whole, n>(x + d, width - d, value);
#pragma unroll
    for (int i = 0; i < n; ++i) value[i] *= by;
    store_pack<Whole, n>(y + d, width - d, value);
  });
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

template <int Lanes, bool Whole, class Body>
__global__ void __launch_bounds__(kThreads) each_row(Body body) {
  const std::int64_t row = row_of_lanes<Lanes>();
  if (row >= body.rows) return;  // either all lanes of a row exit or none
  body.template at<Lanes, Whole>(row);
}

/// Calls Body::at<Lanes, Whole>(row) for every row of a matrix of body.rows rows and body.width columns, on all lanes of the row. Whole:
/// rows are whole packs of T, and all of `operands`, the memory that is moved in packs, are aligned for them.
template <class T, class Body>
void for_rows(const ExecutionContext& context, const char* component, std::initializer_list<const void*> operands, const Body& body) {
  const bool whole = body.width % kPack<T> == 0 && packs_aligned(operands);
  with_lanes(body.rows, body.width, [&]<int Lanes>(std::integral_constant<int, Lanes>, unsigned blocks) {
    launch(context, component, whole ? each_row<Lanes, true, Body> : each_row<Lanes, false, Body>, dim3(blocks), dim3(kThreads), 0, body);
  });
}

}  // namespace millrace::kernels::cuda
