#include "kernels/cpu/share_heads.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace millrace::kernels::cpu {
namespace {

// Every tile is processed once, by a thread that finds its head packed and unchanged meanwhile.
TEST(ShareHeads, EveryTileOnceOnAPackedHead) {
  for (const int threads : {1, 2, 4})
    for (const std::int64_t heads : {1, 2, 5, 40})
      for (const std::int64_t tiles : {1, 3, 17}) {
        SCOPED_TRACE(::testing::Message() << threads << " threads, " << heads << " heads, " << tiles << " tiles");
        ThreadTeam team(threads);
        std::vector<HeadInWork> in_work(static_cast<std::size_t>(threads));
        std::vector<std::atomic<std::int64_t>> packed(static_cast<std::size_t>(threads));
        std::vector<std::atomic<int>> done(static_cast<std::size_t>(heads * tiles));
        std::atomic<int> wrong{0};
        share_heads(
            team, heads, tiles, in_work.data(), [&](int owner, std::int64_t head) { packed[static_cast<std::size_t>(owner)] = head; },
            [&](int owner, std::int64_t head, std::int64_t tile, int thread) {
              const auto& mine = packed[static_cast<std::size_t>(owner)];
              wrong += thread >= 0 && thread < threads && mine == head ? 0 : 1;
              for (int i = 0; i < 100; ++i) wrong += mine == head ? 0 : 1;
              ++done[static_cast<std::size_t>(head * tiles + tile)];
            });
        EXPECT_EQ(wrong, 0);
        for (const auto& times : done) EXPECT_EQ(times, 1);
      }
}

// One head and two threads: while its owner sleeps on a tile, the other processes the rest.
TEST(ShareHeads, WhoHasNoHeadHelps) {
  ThreadTeam team(2);
  std::vector<HeadInWork> in_work(2);
  std::atomic<int> helped{0};
  share_heads(
      team, 1, 9, in_work.data(), [](int, std::int64_t) {},
      [&](int owner, std::int64_t, std::int64_t, int thread) {
        if (thread != owner) ++helped;
        while (thread == owner && helped == 0) std::this_thread::yield();  // forever, if no thread helps
      });
  EXPECT_GT(helped, 0);
}

}  // namespace
}  // namespace millrace::kernels::cpu
