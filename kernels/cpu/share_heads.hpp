#pragma once

#include <atomic>
#include <cstdint>
#include <new>
#include <thread>

#include "kernels/base/buffer.hpp"
#include "kernels/base/thread_team.hpp"

namespace millrace::kernels::cpu {

/// The head that a thread is working on, and its next tile, which other threads may take.
struct alignas(kAlignment) HeadInWork {
  std::atomic<std::int64_t> head;
  std::atomic<std::int64_t> next_tile;
};

/// Calls pack(owner, head) for every head, and after it tile(owner, head, tile, thread) for every tile of that head. A thread
/// packs a head and computes its tiles by itself, so that the packed data stays in its caches; when no head is left, it takes
/// tiles from heads that others own. Tiles share no sums, so results do not depend on which thread computes which. `in_work` has
/// one entry per thread; a thread owns one head at a time.
template <class Pack, class Tile>
void share_heads(ThreadTeam& team, std::int64_t heads, std::int64_t tiles, HeadInWork* in_work, Pack&& pack, Tile&& tile) {
  std::atomic<std::int64_t> next_head{0};
  std::atomic<std::int64_t> not_begun{heads * tiles};
  for (int thread = 0; thread < team.size(); ++thread) new (in_work + thread) HeadInWork{0, tiles};
  const auto take_one = [&](int owner, int thread) {
    HeadInWork& work = in_work[owner];
    if (work.next_tile.load(std::memory_order_relaxed) >= tiles) return false;
    const std::int64_t taken = work.next_tile.fetch_add(1, std::memory_order_acquire);
    if (taken >= tiles) return false;
    not_begun.fetch_sub(1, std::memory_order_relaxed);
    tile(owner, work.head.load(std::memory_order_relaxed), taken, thread);
    return true;
  };
  team.run([&](int thread, int threads) {
    for (std::int64_t head = next_head.fetch_add(1); head < heads; head = next_head.fetch_add(1)) {
      pack(thread, head);
      in_work[thread].head.store(head, std::memory_order_relaxed);
      in_work[thread].next_tile.store(0, std::memory_order_release);
      while (take_one(thread, thread)) {
      }
    }
    // From here on no thread packs over data that another reads: all heads are taken, so the head that a thread owns is its last.
    while (not_begun.load(std::memory_order_relaxed) > 0) {
      bool helped = false;
      for (int owner = 0; owner < threads; ++owner) helped = take_one(owner, thread) || helped;
      if (!helped) std::this_thread::yield();  // the last heads are being packed
    }
  });
}

}  // namespace millrace::kernels::cpu
