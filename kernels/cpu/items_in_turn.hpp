#pragma once

#include <atomic>
#include <cstdint>

#include "kernels/base/buffer.hpp"
#include "kernels/base/thread_team.hpp"

/// Work that threads take item by item, each with scratch of its own.
namespace millrace::kernels::cpu {

/// Calls body(item, thread) for every item in [0, items); a thread takes the next item when it is free, which balances items of different
/// sizes. Items must share no sums, so that results do not depend on which thread computes which.
template <class Body>
void for_items_in_turn(ThreadTeam& team, std::int64_t items, Body&& body) {
  std::atomic<std::int64_t> next{0};
  team.run([&](int thread, int /*threads*/) {
    for (std::int64_t item = next.fetch_add(1, std::memory_order_relaxed); item < items;
         item = next.fetch_add(1, std::memory_order_relaxed))
      body(item, thread);
  });
}

/// Number of floats from one thread's memory to the next, such that no two threads share a cache line.
inline std::int64_t per_thread(std::int64_t floats) {
  return static_cast<std::int64_t>(align_up(static_cast<std::size_t>(floats) * sizeof(float)) / sizeof(float));
}

}  // namespace millrace::kernels::cpu
