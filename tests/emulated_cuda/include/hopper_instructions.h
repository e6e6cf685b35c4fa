#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

/// The instructions of kernels/cuda/hopper.cuh and hopper_fragments.cuh. Copies are done at once, and products as late as they may be: when
/// their group is waited for; or, with MILLRACE_EMULATED_HOPPER=early, as soon as they may be: when it is closed. So wrong descriptors,
/// swizzles, places, masks and counts of barriers give wrong numbers, and so do sums that are read before a wait, and tiles that are given
/// back before it. Shared memory is addressed from the begin of the block's dynamic part on, which is a multiple of 1024.
#define __CUDA_ARCH_FEAT_SM90_ALL

namespace millrace::kernels::cuda::hopper {

inline std::uint32_t shared_address(const void* shared) {
  return static_cast<std::uint32_t>(static_cast<const char*>(shared) - static_cast<const char*>(::emulated_cuda::dynamic_shared()));
}
inline char* shared_at(std::uint32_t address) { return static_cast<char*>(::emulated_cuda::dynamic_shared()) + address; }

// -- barriers -----------------------------------------------------------------------------------------------------------------------------

struct BarrierState {
  std::int32_t bytes;  // announced and not written; less than 0 if copies were faster
  std::uint8_t arrivals, missing;
  std::uint16_t phase;
};
static_assert(sizeof(BarrierState) == sizeof(std::uint64_t));

template <class Change>
void change_barrier(std::uint64_t* barrier, Change&& change) {
  BarrierState state;
  std::memcpy(&state, barrier, sizeof state);
  change(state);
  if (state.missing == 0 && state.bytes == 0) {
    state.missing = state.arrivals;
    ++state.phase;
  }
  std::memcpy(barrier, &state, sizeof state);
}

inline void initialize_barrier(std::uint64_t* barrier, int arrivals) {
  const BarrierState state{0, static_cast<std::uint8_t>(arrivals), static_cast<std::uint8_t>(arrivals), 0};
  std::memcpy(barrier, &state, sizeof state);
}
inline void fence_initialized_barriers() {}
inline void arrive(std::uint64_t* barrier) {
  change_barrier(barrier, [](BarrierState& state) { --state.missing; });
  ::emulated_cuda::yield();  // so that a stage that is given back too early is filled anew at once
}
inline void arrive_and_expect(std::uint64_t* barrier, int bytes) {
  change_barrier(barrier, [bytes](BarrierState& state) {
    --state.missing;
    state.bytes += bytes;
  });
}
inline void complete_bytes(std::uint64_t* barrier, int bytes) {
  change_barrier(barrier, [bytes](BarrierState& state) { state.bytes -= bytes; });
}
inline void wait(std::uint64_t* barrier, int parity) {
  for (;;) {
    BarrierState state;
    std::memcpy(&state, barrier, sizeof state);
    if (state.phase % 2 != parity) return;
    ::emulated_cuda::yield();
  }
}

template <int Number, int Threads>
void wait_for_threads() {
  thread_local int arrived = 0, opened = 0;  // shared by the threads of a block
  const int before = opened;
  if (++arrived == Threads) {
    arrived = 0;
    ++opened;
    return;
  }
  while (opened == before) ::emulated_cuda::yield();
}

// -- copies -------------------------------------------------------------------------------------------------------------------------------

/// Where the byte at this address of a swizzled tile is.
inline std::uint32_t swizzled(std::uint32_t address) { return address ^ (address >> 7 & 7U) << 4; }

inline void prefetch(const CUtensorMap&) {}
inline void copy_box(std::uint32_t to, const CUtensorMap& map, std::uint64_t* barrier, int x, int y, int z) {
  constexpr int line_elements = 64, element_bytes = 2;
  for (int line = 0; line < map.lines; ++line)
    for (int i = 0; i < line_elements; ++i) {
      const std::int64_t column = x + i, row = y + line;
      std::uint16_t value = 0;
      if (column >= 0 && column < map.sizes[0] && row >= 0 && row < map.sizes[1] && z >= 0 && z < map.sizes[2])
        std::memcpy(&value, map.data + (column + row * map.steps[0] + z * map.steps[1]) * element_bytes, sizeof value);
      std::memcpy(shared_at(swizzled(to + static_cast<std::uint32_t>((line * line_elements + i) * element_bytes))), &value, sizeof value);
    }
  complete_bytes(barrier, map.lines * line_elements * element_bytes);
}
inline void copy_bytes(std::uint32_t to, const void* from, int bytes, std::uint64_t* barrier) {
  std::memcpy(shared_at(to), from, static_cast<std::size_t>(bytes));
  complete_bytes(barrier, bytes);
}
inline void fence_for_asynchronous_access() {}

// -- products -----------------------------------------------------------------------------------------------------------------------------

/// The products of a thread that were issued and not waited for, in groups; the last group is open.
using Products = std::vector<std::function<void()>>;
inline std::deque<Products>& products_of_thread() {
  constexpr std::size_t threads = 1024;
  thread_local std::vector<std::deque<Products>> all(threads);
  auto& mine = all[threadIdx.x];
  if (mine.empty()) mine.emplace_back();
  return mine;
}
inline void issue(std::function<void()> product) {
  ::emulated_cuda::note_product();
  products_of_thread().back().push_back(std::move(product));
}

inline void fence_products() {}
/// Computes the oldest groups until so many, and the open one, are left.
inline void compute_products(std::size_t left) {
  auto& groups = products_of_thread();
  for (; groups.size() > left + 1; groups.pop_front())
    for (const auto& product : groups.front()) product();
}
inline void commit_products() {
  products_of_thread().emplace_back();
  if (::emulated_cuda::products_are_early()) compute_products(0);
}
template <int Pending>
void wait_for_products() {
  compute_products(Pending);
}
template <int Count>
void settle(float (&)[Count]) {}

/// An element of an operand: row or column `place` of the result, term `term` of sixteen.
template <bool MnMajor>
float element_of(std::uint64_t descriptor, int place, int term) {
  const auto address = static_cast<std::uint32_t>(descriptor & 0x3fffU) << 4,
             leading = static_cast<std::uint32_t>(descriptor >> 16 & 0x3fffU) << 4,
             stride = static_cast<std::uint32_t>(descriptor >> 32 & 0x3fffU) << 4;
  const auto p = static_cast<std::uint32_t>(place), t = static_cast<std::uint32_t>(term);
  const std::uint32_t at =
      MnMajor ? address + p / 64 * leading + t / 8 * stride + t % 8 * 128 + p % 64 * 2 : address + p / 8 * stride + p % 8 * 128 + t * 2;
  __nv_bfloat16 value;
  std::memcpy(&value, shared_at(swizzled(at)), sizeof value);
  return __bfloat162float(value);
}

/// Adds sixteen terms to this lane's sums [64][Columns]; left: those of its two rows.
template <bool RightMnMajor, int Columns>
void add_terms(float* sums, const float (&left)[2][16], std::uint64_t right, bool accumulate) {
  const int column = static_cast<int>(threadIdx.x) % 4 * 2;
  for (int j = 0; j < Columns / 8; ++j)
    for (int e = 0; e < 2; ++e) {
      float terms[16];
      for (int t = 0; t < 16; ++t) terms[t] = element_of<RightMnMajor>(right, j * 8 + column + e, t);
      for (int half = 0; half < 2; ++half) {
        float& sum = sums[j * 4 + half * 2 + e];
        float total = accumulate ? sum : 0;
        for (int t = 0; t < 16; ++t) total += left[half][t] * terms[t];
        sum = total;
      }
    }
}

/// The left operand of a lane's two rows, from shared memory.
template <bool MnMajor>
void left_of_lane(std::uint64_t descriptor, float (&left)[2][16]) {
  const int thread = static_cast<int>(threadIdx.x) % 128, row = thread / 32 * 16 + thread % 32 / 4;
  for (int half = 0; half < 2; ++half)
    for (int t = 0; t < 16; ++t) left[half][t] = element_of<MnMajor>(descriptor, row + half * 8, t);
}
/// The same from the pairs that four neighbouring lanes hold.
struct LeftRows {
  float rows[2][16];
};
inline LeftRows left_of_lane(const std::uint32_t (&pairs)[4]) {
  LeftRows left;
  const int first = static_cast<int>(threadIdx.x) % 32 / 4 * 4;
  for (int i = 0; i < 4; ++i)
    for (int lane = 0; lane < 4; ++lane) {
      const std::uint32_t pair = __shfl_sync(0xffffffffU, pairs[i], first + lane);
      for (int e = 0; e < 2; ++e)
        left.rows[i % 2][i / 2 * 8 + lane * 2 + e] = __bfloat162float(__ushort_as_bfloat16(static_cast<unsigned short>(pair >> (16 * e))));
    }
  return left;
}

inline float power_of_two(float x) { return std::exp2(x); }

template <int Registers>
void give_registers_back() {}
template <int Registers>
void take_registers() {
  products_of_thread().clear();  // what a block before this one did not wait for is lost
}

}  // namespace millrace::kernels::cuda::hopper
