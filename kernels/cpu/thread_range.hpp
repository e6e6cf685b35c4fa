#pragma once

#include <algorithm>
#include <cstdint>

namespace millrace::kernels::cpu {

/// Boundaries between threads are at multiples of this many rows or columns: a vector, and a cache line of fp32.
inline constexpr std::int64_t kShareGrain = 16;

struct IndexRange {
  std::int64_t begin, end;
  [[nodiscard]] std::int64_t size() const { return end - begin; }
};

/// A thread's part of `count` items in pieces of `grain`: in order, and as even as whole pieces allow.
inline IndexRange thread_range(std::int64_t count, std::int64_t grain, int thread, int threads) {
  const std::int64_t blocks = (count + grain - 1) / grain;
  return {std::min(count, blocks * thread / threads * grain), std::min(count, blocks * (thread + 1) / threads * grain)};
}

/// Calls body(part) for nearly equal parts of `range`, in order; each is at most `most`, which is a multiple of kShareGrain.
template <class Body>
void for_parts(IndexRange range, std::int64_t most, Body&& body) {
  const auto parts = static_cast<int>((range.size() + most - 1) / most);
  for (int part = 0; part < parts; ++part) {
    const IndexRange within = thread_range(range.size(), kShareGrain, part, parts);
    if (within.size() > 0) body(IndexRange{range.begin + within.begin, range.begin + within.end});
  }
}

}  // namespace millrace::kernels::cpu
