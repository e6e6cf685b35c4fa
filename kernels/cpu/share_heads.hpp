#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "kernels/base/buffer.hpp"
#include "kernels/base/thread_team.hpp"

namespace millrace::kernels::cpu {

/// The head that a thread has in work, and its next tile: what others may help with.
struct alignas(kAlignment) HeadInWork {
  std::atomic<std::int64_t> head;
  std::atomic<std::int64_t> next_tile;
};

/// pack(owner, head) for every head, and after it tile(owner, head, tile, thread) for every tile of it. A thread packs a head and works
/// through it by itself, so that what it packed stays in its caches; when no head is left, it takes tiles of those that others own. Tiles
/// share no sums, so who computes which does not matter. `in_work` has room for one a thread; a thread owns one head at a time.
template <class Pack, class Tile>
void share_heads(ThreadTeam& team, std::int64_t heads, std::int64_t tiles, HeadInWork* in_work, Pack&& pack, Tile&& tile) {
  std::atomic<std::int64_t> next_head{0};
  std::atomic<std::int64_t> not_begun{heads * tiles};
  for (int thread = 0; thread < team.size(); ++thread) std::construct_at(in_work + thread, 0, tiles);
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
    // From here on nobody packs over what another reads: all heads are taken, so whatever a thread owns is its last.
    while (not_begun.load(std::memory_order_relaxed) > 0) {
      bool helped = false;
      for (int owner = 0; owner < threads; ++owner) helped = take_one(owner, thread) || helped;
      if (!helped) std::this_thread::yield();  // the last heads are being packed
    }
  });
}

}  // namespace millrace::kernels::cpu
