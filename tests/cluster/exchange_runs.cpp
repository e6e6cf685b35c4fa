#include "tests/cluster/exchange_runs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "cluster/links/transport.hpp"
#include "tests/cluster/allocation_count.hpp"

namespace millrace::cluster {
namespace {

std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

std::uint64_t key(const ExchangeGroup& group, std::int64_t sequence, int from, int to) {
  return mix(static_cast<std::uint64_t>(sequence) * 4096 + static_cast<std::uint64_t>(group.id) * 256 +
             static_cast<std::uint64_t>(from) * 16 + static_cast<std::uint64_t>(to));
}

constexpr std::byte gap{0xA5};

/// The byte at `index` of a part.
std::byte pattern(std::uint64_t key_of_part, std::int64_t index) {
  return static_cast<std::byte>(key_of_part + static_cast<std::uint64_t>(index) * 31 + (static_cast<std::uint64_t>(index) >> 12));
}

/// The memory and table of one exchange: parts in an order of their own, with gaps between them.
struct Buffers {
  std::vector<std::byte> from, into;
  std::vector<std::int64_t> send_at, send_bytes, receive_at, receive_bytes;

  [[nodiscard]] ExchangeTable table() const { return {send_at, send_bytes, receive_at, receive_bytes}; }
};

class RunMember {
 public:
  RunMember(const ExchangeRun& run, const ExchangeGroup& group, int place)
      : run_(run), group_(group), place_(place), buffers_(static_cast<std::size_t>(run.outstanding)), ended_(run.exchanges) {
    std::int64_t most_out = 0, most_in = 0;
    for (std::int64_t sequence = 0; sequence < run.exchanges; ++sequence) {
      std::int64_t out = 0, in = 0;
      for (int peer = 0; peer < size(); ++peer) {
        out += gap_bytes + run.bytes(group, sequence, place, peer);
        in += gap_bytes + run.bytes(group, sequence, peer, place);
      }
      most_out = std::max(most_out, out);
      most_in = std::max(most_in, in);
    }
    for (Buffers& each : buffers_) {
      each.from.resize(static_cast<std::size_t>(most_out));
      each.into.resize(static_cast<std::size_t>(most_in));
      for (auto* column : {&each.send_at, &each.send_bytes, &each.receive_at, &each.receive_bytes}) column->resize(group.ranks.size());
    }
  }

  void on_exchanged(std::int64_t sequence) {
    const std::lock_guard lock(mutex_);
    if (sequence < 0 || sequence >= run_.exchanges || std::exchange(ended_[static_cast<std::size_t>(sequence)], 1) != 0)
      failure_ = "an end of an exchange that is not under way";
    changed_.notify_all();
  }

  void run(Exchange& exchange) {
    for (std::int64_t sequence = 0; sequence < run_.exchanges + run_.outstanding && failure_ == nullptr; ++sequence) {
      const std::int64_t earlier = sequence - run_.outstanding;
      Buffers& buffers = buffers_[static_cast<std::size_t>(sequence % run_.outstanding)];
      if (earlier >= 0 && earlier < run_.exchanges) {
        wait(earlier);
        check(buffers, earlier);
      }
      if (sequence == run_.allocation_free_from) allocations_ = tests::allocation_count();
      if (sequence == run_.exchanges) allocations_after_ = tests::allocation_count();
      if (sequence >= run_.exchanges) continue;
      fill(buffers, sequence);
      if (run_.before_post) run_.before_post(place_);
      exchange.post(sequence, buffers.from.data(), buffers.into.data(), buffers.table());
    }
    check_counters(exchange);
  }

  [[nodiscard]] const char* failure() const { return failure_; }
  [[nodiscard]] std::int64_t allocations() const { return run_.allocation_free_from < 0 ? 0 : allocations_after_ - allocations_; }
  [[nodiscard]] int place() const { return place_; }

 private:
  static constexpr std::int64_t gap_bytes = 3;
  [[nodiscard]] int size() const { return static_cast<int>(group_.ranks.size()); }
  /// The i-th part in memory belongs to this peer.
  [[nodiscard]] int peer_at(std::int64_t sequence, int index) const {
    return static_cast<int>((index + sequence + (sequence % 2 == 0 ? place_ : 0)) % size());
  }

  void fill(Buffers& buffers, std::int64_t sequence) const {
    std::fill(buffers.from.begin(), buffers.from.end(), gap);
    std::fill(buffers.into.begin(), buffers.into.end(), gap);
    std::int64_t out = 0, in = 0;
    for (int index = 0; index < size(); ++index) {
      const int peer = peer_at(sequence, index);
      const auto at = static_cast<std::size_t>(peer);
      buffers.send_at[at] = out + gap_bytes;
      buffers.send_bytes[at] = run_.bytes(group_, sequence, place_, peer);
      buffers.receive_at[at] = in + gap_bytes;
      buffers.receive_bytes[at] = run_.bytes(group_, sequence, peer, place_);
      const std::uint64_t part = key(group_, sequence, place_, peer);
      for (std::int64_t byte = 0; byte < buffers.send_bytes[at]; ++byte)
        buffers.from[static_cast<std::size_t>(buffers.send_at[at] + byte)] = pattern(part, byte);
      out += gap_bytes + buffers.send_bytes[at];
      in += gap_bytes + buffers.receive_bytes[at];
    }
  }

  void check(const Buffers& buffers, std::int64_t sequence) {
    std::int64_t wrong = 0, at = 0;
    for (int index = 0; index < size(); ++index) {
      const int peer = peer_at(sequence, index);
      const std::uint64_t part = key(group_, sequence, peer, place_);
      for (std::int64_t byte = 0; byte < gap_bytes; ++byte, ++at) wrong += buffers.into[static_cast<std::size_t>(at)] != gap;
      const std::int64_t bytes = run_.bytes(group_, sequence, peer, place_);
      for (std::int64_t byte = 0; byte < bytes; ++byte, ++at) wrong += buffers.into[static_cast<std::size_t>(at)] != pattern(part, byte);
    }
    for (; at < static_cast<std::int64_t>(buffers.into.size()); ++at) wrong += buffers.into[static_cast<std::size_t>(at)] != gap;
    if (wrong > 0) failure_ = "wrong bytes";
  }

  void wait(std::int64_t sequence) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(60), [&] { return ended_[static_cast<std::size_t>(sequence)] != 0; }))
      failure_ = "an exchange did not end for 60 s";
  }

  void check_counters(const Exchange& exchange) {
    Exchange::Counters expected{.exchanges = run_.exchanges};
    for (std::int64_t sequence = 0; sequence < run_.exchanges; ++sequence) {
      for (int peer = 0; peer < size(); ++peer) {
        if (peer == place_) continue;
        expected.bytes_sent += run_.bytes(group_, sequence, place_, peer);
        expected.bytes_received += run_.bytes(group_, sequence, peer, place_);
      }
    }
    const Exchange::Counters found = exchange.counters();
    if (found.exchanges != expected.exchanges || found.bytes_sent != expected.bytes_sent || found.bytes_received != expected.bytes_received)
      failure_ = "wrong counters";
    for (std::int64_t sequence = 0; sequence < run_.exchanges; ++sequence)
      if (!exchange.missing(sequence).empty()) failure_ = "an ended exchange waits for members";
  }

  const ExchangeRun& run_;
  const ExchangeGroup& group_;
  const int place_;
  std::vector<Buffers> buffers_;
  std::vector<char> ended_;  // guarded by mutex_
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<const char*> failure_{nullptr};
  std::int64_t allocations_ = 0, allocations_after_ = 0;
};

/// Passes a rank's ends on to its members.
class RunRank final : public ExchangeEvents {
 public:
  void on_exchanged(int group, std::int64_t sequence) override { members.at(group)->on_exchanged(sequence); }
  std::map<int, std::unique_ptr<RunMember>> members;  // by group
};

}  // namespace

std::int64_t random_bytes(const ExchangeGroup& group, std::int64_t sequence, int from, int to, std::int64_t most) {
  const std::uint64_t value = key(group, sequence, from, to);
  return value % 4 == 0 ? 0 : static_cast<std::int64_t>((value >> 8) % static_cast<std::uint64_t>(most + 1));
}

void run_exchanges(const Topology& topology, Transport* transport, const ExchangeRun& run) {
  std::map<int, RunRank> ranks;
  for (const ExchangeGroup& group : run.groups) {
    for (int place = 0; place < static_cast<int>(group.ranks.size()); ++place) {
      const int rank = group.ranks[static_cast<std::size_t>(place)];
      if (topology.hosts(rank)) ranks[rank].members[group.id] = std::make_unique<RunMember>(run, group, place);
    }
  }
  std::vector<Exchanges::Member> members;
  for (auto& [rank, events] : ranks) members.push_back({rank, &events});
  Exchanges exchanges(topology, transport, run.groups, members, ExchangeUse::rows, run.piece_bytes);
  std::vector<std::thread> threads;
  for (auto& [rank, events] : ranks)
    for (auto& [group, member] : events.members)
      threads.emplace_back([&exchange = exchanges.exchange(group, rank), &member = *member] { member.run(exchange); });
  for (std::thread& thread : threads) thread.join();
  for (auto& [rank, events] : ranks) {
    for (auto& [group, member] : events.members) {
      EXPECT_EQ(member->failure(), nullptr) << "rank " << rank << " in group " << group << ": " << member->failure();
      EXPECT_EQ(member->allocations(), 0) << "rank " << rank << " in group " << group;
    }
  }
  exchanges.close();
}

}  // namespace millrace::cluster
