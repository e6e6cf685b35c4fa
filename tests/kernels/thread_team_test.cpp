#include "kernels/base/thread_team.hpp"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>

#include "tests/kernels/fixture.hpp"
#include "tests/support/expect_error.hpp"

namespace millrace::kernels {
namespace {

TEST(ThreadTeam, RunsEveryIndexOnceAndWaitsForAll) {
  for (const int size : {1, 2, 3, 9}) {
    ThreadTeam team(size);
    EXPECT_EQ(team.size(), size);
    std::vector<int> calls(static_cast<std::size_t>(size));
    for (int round = 0; round < 300; ++round)
      team.run([&](int thread, int threads) {
        EXPECT_EQ(threads, size);
        ++calls[static_cast<std::size_t>(thread)];  // a plain int: run() orders the rounds
      });
    for (const int count : calls) EXPECT_EQ(count, 300);
  }
}

/// On a thread of its own, because the team pins it.
void expect_folded(int at_once) {
  std::vector<int> cores(static_cast<std::size_t>(at_once));  // the machine need not have these cores: a thread is then not pinned
  std::iota(cores.begin(), cores.end(), 0);
  ThreadTeam team(7, cores);
  EXPECT_EQ(team.size(), 7);
  std::vector<std::thread::id> ran(7);
  for (int round = 0; round < 50; ++round)
    team.run([&](int thread, int threads) {
      EXPECT_EQ(threads, 7);
      ran[static_cast<std::size_t>(thread)] = std::this_thread::get_id();
    });
  const std::set<std::thread::id> different(ran.begin(), ran.end());
  EXPECT_EQ(different.size(), static_cast<std::size_t>(at_once));
  EXPECT_FALSE(different.contains(std::thread::id()));
  EXPECT_EQ(ran.front(), std::this_thread::get_id());
  const auto lowest = [&] {
    team.run([](int thread, int) {
      if (thread >= 2) throw std::runtime_error(std::to_string(thread));
    });
  };
  try {
    lowest();
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "2");
  }
}

TEST(ThreadTeam, IsCutTheSameOnFewerThreadsOfTheSystem) {
  for (const int at_once : {1, 2, 3}) std::thread([at_once] { expect_folded(at_once); }).join();
}

TEST(ThreadTeam, WakesMembersThatFellAsleep) {
  ThreadTeam team(3);
  std::atomic<int> calls{0};
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    team.run([&](int, int) { calls.fetch_add(1); });
  }
  EXPECT_EQ(calls.load(), 15);
}

TEST(ThreadTeam, WaitsForAMemberThatIsSlow) {
  ThreadTeam team(2);
  int written = 0;
  team.run([&](int thread, int) {
    if (thread == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    written = 7;
  });
  EXPECT_EQ(written, 7);
}

TEST(ThreadTeam, CutsRangesAtTheGrainWithoutGapOrOverlap) {
  for (const int size : {1, 2, 3}) {
    ThreadTeam team(size);
    for (const std::int64_t count : {0, 1, 43, 64, 597}) {
      std::vector<int> touched(static_cast<std::size_t>(count));
      team.for_ranges(count, 16, [&](std::int64_t begin, std::int64_t end) {
        EXPECT_EQ(begin % 16, 0);
        EXPECT_LT(begin, end);
        for (std::int64_t i = begin; i < end; ++i) ++touched[static_cast<std::size_t>(i)];
      });
      EXPECT_EQ(std::accumulate(touched.begin(), touched.end(), std::int64_t{0}), count);
      for (const int times : touched) EXPECT_EQ(times, 1);
    }
  }
}

TEST(ThreadTeam, ThrowsTheErrorOfTheLowestThreadAndGoesOn) {
  ThreadTeam team(3);
  try {
    team.run([](int thread, int) {
      if (thread > 0) throw std::runtime_error(thread == 1 ? "one" : "two");
    });
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "one");
  }
  std::atomic<int> calls{0};
  team.run([&](int, int) { ++calls; });
  EXPECT_EQ(calls.load(), 3);
}

TEST(ThreadTeam, RefusesNoThreads) {
  EXPECT_EQ(testing::thrown([] { ThreadTeam team(0); }), static_cast<int>(ExitCode::config));
}

TEST(ThreadTeam, SaysWhichThreadCannotBeStarted) {
  pthread_attr_t usual, greedy;
  ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(pthread_attr_init(&greedy), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&greedy, std::size_t{1} << 50), 0);
  ASSERT_EQ(pthread_setattr_default_np(&greedy), 0);
  tests::expect_error([] { ThreadTeam team(4); }, ExitCode::memory, {"the system refused thread 2 of 4: "});
  ASSERT_EQ(pthread_setattr_default_np(&usual), 0);
  pthread_attr_destroy(&greedy);
  pthread_attr_destroy(&usual);
}

TEST(ThreadTeam, AllocatesNothingLargeInARun) {
  ThreadTeam team(2);
  const auto before = testing::large_allocations();
  for (int round = 0; round < 50; ++round) team.run([](int, int) {});
  EXPECT_EQ(testing::large_allocations(), before);
}

}  // namespace
}  // namespace millrace::kernels
