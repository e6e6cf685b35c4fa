#pragma once

#include <cstdint>

#include "kernels/cuda/launch.cuh"

/// Access to key lists (kernels/choose_keys.hpp): a line of L places in increasing order, with −1 behind the last of them.
namespace millrace::kernels::cuda {

struct KeyLists {
  const std::int32_t* keys;       // [T, L]
  std::int64_t length, sequence;  // L, S
  FaultSlot* fault;

  /// Key i of token t; −1 if there is none, or if it is outside the row, which is reported.
  __device__ std::int32_t at(std::int64_t t, std::int64_t i) const {
    const std::int32_t key = keys[t * length + i];
    if (key >= -1 && key < sequence) return key;
    report(fault, FaultSlot::key, key, t * length + i, sequence);
    return -1;
  }
  /// The place of `key` in the list of token t; −1 if it is not there. As unsigned numbers, the −1s are the largest ones.
  __device__ std::int64_t find(std::int64_t t, std::int32_t key) const {
    const std::int32_t* list = keys + t * length;
    std::int64_t begin = 0, end = length;
    while (begin < end) {
      const std::int64_t middle = (begin + end) / 2;
      if (static_cast<unsigned>(list[middle]) < static_cast<unsigned>(key))
        begin = middle + 1;
      else
        end = middle;
    }
    return begin < length && list[begin] == key ? begin : -1;
  }
};

/// Features of a vector that a warp holds in registers at a time: kLaneColumns per lane, every 32nd.
inline constexpr int kLaneColumns = 8;
inline constexpr std::int64_t kWarpColumns = 32 * kLaneColumns;

/// Σ a · b, by one thread, in order.
template <class A, class B>
__device__ __forceinline__ float thread_dot(const A* a, const B* b, std::int64_t width) {
  float sum = 0;
  for (std::int64_t d = 0; d < width; ++d) sum += load(a + d) * load(b + d);
  return sum;
}
/// The same by a warp, returned to all lanes.
template <class A, class B>
__device__ __forceinline__ float warp_dot(const A* a, const B* b, std::int64_t width) {
  float sum = 0;
  for (std::int64_t d = threadIdx.x % 32; d < width; d += 32) sum += load(a + d) * load(b + d);
  return warp_sum(sum);
}
/// sum[n] += weight · x[first + lane + 32 n].
template <class T>
__device__ __forceinline__ void add_columns(float weight, const T* x, std::int64_t first, std::int64_t width, float (&sum)[kLaneColumns]) {
#pragma unroll
  for (int n = 0; n < kLaneColumns; ++n) {
    const std::int64_t d = first + threadIdx.x % 32 + 32 * n;
    if (d < width) sum[n] += weight * load(x + d);
  }
}
template <class T>
__device__ __forceinline__ void store_columns(const float (&sum)[kLaneColumns], float factor, std::int64_t first, std::int64_t width,
                                              T* to) {
#pragma unroll
  for (int n = 0; n < kLaneColumns; ++n) {
    const std::int64_t d = first + threadIdx.x % 32 + 32 * n;
    if (d < width) store(to + d, sum[n] * factor);
  }
}

/// The number of this warp among all of a launch, whose blocks have kThreads threads.
__device__ __forceinline__ std::int64_t warp_number() { return static_cast<std::int64_t>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32; }

}  // namespace millrace::kernels::cuda
