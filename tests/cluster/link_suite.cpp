// The contract of a link, whatever its implementation: link_in_process_test and link_mpi_test run these same tests.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include "tests/cluster/allocation_count.hpp"
#include "tests/cluster/link_exchange.hpp"
#include "tests/cluster/link_world.hpp"

namespace millrace::cluster {
namespace {

std::size_t full(const ChannelSpec& spec, std::int64_t) { return spec.bytes; }

/// A size up to the slot's, including zero and the maximum; the same on both sides.
std::size_t any_size(const ChannelSpec& spec, std::int64_t sequence) {
  if (sequence % 5 == 1) return 0;
  if (sequence % 5 == 3) return spec.bytes;
  return static_cast<std::size_t>(sequence * 7919 + spec.id * 104729) % (spec.bytes + 1);
}

void sleep_a_little(int rank) {
  thread_local std::uint32_t state = 12345u + static_cast<std::uint32_t>(rank);
  state = state * 1664525u + 1013904223u;
  if (state >> 30 == 0) std::this_thread::sleep_for(std::chrono::microseconds(state >> 20 & 1023));
}

/// Activations towards higher ranks and gradients towards lower ones, as in a pipeline.
std::vector<ChannelSpec> pipeline(int depth, std::size_t bytes) {
  std::vector<ChannelSpec> specs;
  const int ranks = link_world().topology.ranks();
  for (int rank = 0; rank + 1 < ranks; ++rank) {
    specs.push_back({2 * rank, rank, rank + 1, ChannelKind::activation, depth, bytes});
    specs.push_back({2 * rank + 1, rank + 1, rank, ChannelKind::gradient, depth, bytes});
  }
  return specs;
}

TEST(Link, MessagesKeepTheirOrderOverManyTurnsOfTheRing) { exchange(pipeline(3, 1000), {.messages = 500, .size = full}); }

TEST(Link, OneSlotIsEnough) { exchange(pipeline(1, 5000), {.messages = 100, .size = full}); }

TEST(Link, SizesVaryFromNothingToTheWholeSlot) { exchange(pipeline(3, 300'000), {.messages = 60, .size = any_size}); }

TEST(Link, SlowAndFastRanksMayMeet) { exchange(pipeline(4, 20'000), {.messages = 200, .size = any_size, .before_each = sleep_a_little}); }

// One channel in one direction: no other traffic wakes a sender whose only slot MPI holds until the receiver has room.
TEST(Link, ASenderHearsWhenItsSlotIsFree) {
  const int middle = link_world().topology.ranks() / 2;
  exchange({{0, middle - 1, middle, ChannelKind::activation, 1, 100'000}}, {.messages = 8, .size = full, .before_each = [](int rank) {
                                                                              if (rank == link_world().topology.ranks() / 2)
                                                                                std::this_thread::sleep_for(std::chrono::milliseconds(5));
                                                                            }});
}

TEST(Link, MessagesComeThroughWhileAllWorkersCompute) {
  auto* transport = link_world().transport;
  if (transport == nullptr) GTEST_SKIP() << "within one process there is no transport to wait for";
  transport->set_workers(1);
  transport->computing(true);
  exchange(pipeline(2, 100'000), {.messages = 40, .size = any_size, .before_each = sleep_a_little});
  transport->computing(false);
  exchange(pipeline(2, 2000), {.messages = 40, .size = any_size});
  transport->set_workers(0);
}

TEST(Link, ShortMessagesMayComeFasterThanTheyAreReleased) {
  exchange(pipeline(16, 200), {.messages = 2000, .size = any_size, .before_each = sleep_a_little, .hold_until_full = true});
  exchange(pipeline(7, 9000), {.messages = 700, .size = any_size});
}

TEST(Link, AnEmptySlotIsAMessageToo) { exchange(pipeline(2, 0), {.messages = 50, .size = full}); }

TEST(Link, LargeMessages) {
  const int last = link_world().topology.ranks() - 1;
  exchange({{0, 0, last, ChannelKind::activation, 2, std::size_t{64} << 20}}, {.messages = 3, .size = full});
}

TEST(Link, MessagesBeyondThePieceLimitGoInPieces) {
  exchange(pipeline(2, 100'000), {.messages = 40, .size = any_size, .piece_bytes = 1000});
}

// Sent part by part if the channel leaves the process. The last part, or the whole message, may be a single byte.
TEST(Link, PartsMayBeAsShortAsAByte) {
  for (const auto& [bytes, part_bytes] : {std::pair<std::size_t, std::size_t>{129, 64}, {1, 1}, {100'001, 10'000}}) {
    auto specs = pipeline(3, bytes);
    for (ChannelSpec& spec : specs) spec.part_bytes = part_bytes;
    exchange(specs, {.messages = 30, .size = full});
    exchange(specs, {.messages = 30, .size = any_size});
  }
}

TEST(Link, ManyChannelsOfAllKindsAtOnce) {
  std::vector<ChannelSpec> specs;
  const int ranks = link_world().topology.ranks();
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) {
      for (int kind = 0; kind < channel_kinds; ++kind) {
        specs.push_back({static_cast<int>(specs.size()), from, to, static_cast<ChannelKind>(kind), 1 + (from + to + kind) % 4, 3000});
      }
    }
  }
  exchange(specs, {.messages = 60, .size = any_size});
}

TEST(Link, TheSenderFillsTheRingWhileNothingIsReleased) {
  exchange(pipeline(16, 100'000), {.messages = 64, .size = full, .hold_until_full = true});
}

TEST(Link, ChannelsMayBeOpenedAnewUnderTheSameIds) {
  for (int turn = 0; turn < 3; ++turn) exchange(pipeline(1 + turn, 70'000), {.messages = 10, .size = any_size});
}

TEST(Link, TheSteadyStateAllocatesNothing) {
  // Each rank counts its own turns. Between turns 100 and 500 of the first rank in this process, no rank is near its start or end.
  const int first = link_world().topology.first_rank();
  std::int64_t turn = 0, before = 0, after = 0;
  ExchangePlan plan{.messages = 400, .size = full, .before_each = [&](int rank) {
                      if (rank != first) return;
                      if (++turn == 100) before = tests::allocation_count();
                      if (turn == 500) after = tests::allocation_count();
                    }};
  exchange(pipeline(2, 100'000), plan);
  ASSERT_GE(turn, 500);
  EXPECT_EQ(after - before, 0);
}

}  // namespace
}  // namespace millrace::cluster
