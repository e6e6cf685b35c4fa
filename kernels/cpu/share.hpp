#pragma once

#include <algorithm>
#include <cstdint>

namespace millrace::kernels::cpu {

/// Rows or columns of a result that a cut between threads falls on: a vector, a cache line of fp32.
inline constexpr std::int64_t kShareGrain = 16;

struct Range {
  std::int64_t begin, end;
  [[nodiscard]] std::int64_t size() const { return end - begin; }
};

/// A thread's part of `count` things in pieces of `grain`: as even as pieces go, in order.
inline Range share(std::int64_t count, std::int64_t grain, int thread, int threads) {
  const std::int64_t blocks = (count + grain - 1) / grain;
  return {std::min(count, blocks * thread / threads * grain), std::min(count, blocks * (thread + 1) / threads * grain)};
}

}  // namespace millrace::kernels::cpu
