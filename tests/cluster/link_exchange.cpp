#include "tests/cluster/link_exchange.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "tests/cluster/link_world.hpp"

namespace millrace::cluster {
namespace {

struct Ring {
  explicit Ring(const ChannelSpec& of) : spec(of), bytes(ring_bytes(spec)), data(static_cast<std::byte*>(std::aligned_alloc(64, bytes))) {
    std::memset(data, untouched, bytes);
  }
  ~Ring() { std::free(data); }
  Ring(const Ring&) = delete;
  /// Whether the place of a host-memory link's prefixes is untouched.
  [[nodiscard]] bool has_no_prefixes() const {
    for (int slot = 0; slot < spec.depth; ++slot) {
      const std::byte* prefix = data + static_cast<std::size_t>(slot) * slot_stride(spec);
      if (!std::all_of(prefix, prefix + slot_payload_offset, [](std::byte each) { return each == std::byte{untouched}; })) return false;
    }
    return true;
  }
  static constexpr unsigned char untouched = 0xA5;
  ChannelSpec spec;
  std::size_t bytes;
  std::byte* data;
};

/// One end of a channel, as seen by its rank's thread.
struct End {
  ChannelSpec spec;
  bool sends = false;
  std::atomic<std::int64_t> reported{0};  ///< messages that arrived, or slots that became writable again
  std::vector<Arrival> arrivals;          ///< by sequence % depth
  std::int64_t done = 0;
  std::size_t part_bytes = 0;  ///< size of the newest message that arrived in parts
};

class Rank final : public LinkEvents {
 public:
  explicit Rank(int rank) : rank_(rank) {}

  void add(const ChannelSpec& spec, bool sends) {
    auto end = std::make_unique<End>();
    end->spec = spec;
    end->sends = sends;
    end->arrivals.resize(static_cast<std::size_t>(spec.depth));
    auto& place = sends ? sending_ : receiving_;
    if (place.size() <= static_cast<std::size_t>(spec.id)) place.resize(static_cast<std::size_t>(spec.id) + 1);
    place[static_cast<std::size_t>(spec.id)] = end.get();
    ends_.push_back(std::move(end));
  }

  void on_arrival(const Arrival& arrival) override {
    End& end = *receiving_[static_cast<std::size_t>(arrival.channel)];
    if (arrival.sequence != end.reported.load()) wrong("an arrival out of order");
    if (in_parts(end.spec) && std::exchange(end.part_bytes, 0) != arrival.bytes) wrong("parts that are not the message");
    end.arrivals[static_cast<std::size_t>(arrival.sequence % end.spec.depth)] = arrival;
    count(end);
  }
  void on_part(const Arrival& part, std::size_t from) override {
    End& end = *receiving_[static_cast<std::size_t>(part.channel)];
    if (part.sequence != end.reported.load() || from != end.part_bytes || part.bytes > end.spec.part_bytes) wrong("a part out of order");
    end.part_bytes += part.bytes;
  }
  void on_writable(int channel, std::int64_t sequence) override {
    End& end = *sending_[static_cast<std::size_t>(channel)];
    if (sequence != end.reported.load()) wrong("a slot writable out of order");
    count(end);
  }

  void run(const Links& links, const ExchangePlan& plan) {
    std::size_t left = ends_.size();
    while (left > 0 && !failed_) {
      bool moved = false;
      for (const auto& end : ends_) {
        if (end->done == plan.messages || !ready(*end, plan)) continue;
        if (plan.before_each) plan.before_each(rank_);
        end->sends ? send_next(links, *end, plan) : receive_next(links, *end, plan);
        if (++end->done == plan.messages) --left;
        moved = true;
      }
      if (!moved) wait();
    }
    // Over MPI the last sends may still be pending: they are complete when their slots are writable.
    while (!failed_ && !all_writable(plan)) wait();
  }

  [[nodiscard]] const char* failure() const { return failed_; }

 private:
  void wrong(const char* what) { failed_ = what; }
  static bool in_parts(const ChannelSpec& spec) {
    const Topology& topology = link_world().topology;
    return spec.part_bytes > 0 && !(topology.hosts(spec.from_rank) && topology.hosts(spec.to_rank));
  }

  void count(End& end) {
    end.reported.fetch_add(1);
    const std::lock_guard lock(mutex_);
    ++reports_;
    changed_.notify_all();
  }

  void wait() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(60), [&] { return reports_ != seen_; })) wrong("nothing moved for 60 s");
    seen_ = reports_;
  }

  [[nodiscard]] bool ready(const End& end, const ExchangePlan& plan) const {
    if (end.sends) return end.done < end.reported.load() + end.spec.depth;
    return end.reported.load() >= (plan.hold_until_full ? std::min(end.done + end.spec.depth, plan.messages) : end.done + 1);
  }

  [[nodiscard]] bool all_writable(const ExchangePlan& plan) const {
    for (const auto& end : ends_) {
      if (end->sends && end->reported.load() < plan.messages) return false;
    }
    return true;
  }

  static std::uint8_t pattern(const ChannelSpec& spec, std::int64_t sequence, std::size_t index) {
    return static_cast<std::uint8_t>(index * 31 + (index >> 12) + static_cast<std::size_t>(sequence) * 7 +
                                     static_cast<std::size_t>(spec.id) * 13);
  }

  void send_next(const Links& links, End& end, const ExchangePlan& plan) {
    Link& link = links.link(end.spec.id);
    const std::size_t bytes = plan.size(end.spec, end.done);
    auto* data = reinterpret_cast<std::uint8_t*>(link.slot(end.done));
    for (std::size_t index = 0; index < bytes; ++index) data[index] = pattern(end.spec, end.done, index);
    if (!in_parts(end.spec) || end.done % 4 == 3) return link.send(end.done, bytes, end.done + 1);  // whole messages may come in between
    link.begin(end.done, bytes, end.done + 1);
    for (std::size_t there = end.spec.part_bytes; there < bytes; there += end.spec.part_bytes) link.ready(end.done, there);
    link.ready(end.done, bytes);
  }

  void receive_next(const Links& links, End& end, const ExchangePlan& plan) {
    const Arrival arrival = end.arrivals[static_cast<std::size_t>(end.done % end.spec.depth)];
    if (arrival.sequence != end.done) wrong("a message was overwritten before its release");
    if (arrival.bytes != plan.size(end.spec, end.done)) wrong("a wrong size");
    if (arrival.producer_finish_ns != end.done + 1) wrong("a wrong time");
    std::size_t differences = 0;
    const auto* data = reinterpret_cast<const std::uint8_t*>(arrival.data);
    for (std::size_t index = 0; index < arrival.bytes; ++index) differences += data[index] != pattern(end.spec, end.done, index);
    if (differences > 0) wrong("wrong bytes");
    links.link(end.spec.id).release(end.done);
  }

  const int rank_;
  std::vector<std::unique_ptr<End>> ends_;
  std::vector<End*> sending_, receiving_;  // by channel
  std::atomic<const char*> failed_{nullptr};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t reports_ = 0, seen_ = 0;
};

void check_counters(const Links& links, const ChannelSpec& spec, const ExchangePlan& plan) {
  const Topology& topology = link_world().topology;
  std::int64_t bytes = 0;
  for (std::int64_t sequence = 0; sequence < plan.messages; ++sequence) bytes += static_cast<std::int64_t>(plan.size(spec, sequence));
  const Link::Counters counters = links.link(spec.id).counters();
  if (topology.hosts(spec.from_rank)) {
    EXPECT_EQ(counters.messages_sent, plan.messages);
    EXPECT_EQ(counters.bytes_sent, bytes);
  }
  if (topology.hosts(spec.to_rank)) {
    EXPECT_EQ(counters.messages_received, plan.messages);
    EXPECT_EQ(counters.bytes_received, bytes);
  }
}

}  // namespace

namespace {

void exchange_once(const std::vector<ChannelSpec>& specs, const ExchangePlan& plan) {
  const LinkWorld& world = link_world();
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int rank = 0; rank < world.topology.ranks(); ++rank) ranks.push_back(std::make_unique<Rank>(rank));
  std::vector<std::unique_ptr<Ring>> rings;
  std::vector<ChannelEnds> channels;
  const auto new_ring = [&](const ChannelSpec& spec) {
    rings.push_back(std::make_unique<Ring>(spec));
    return std::span(rings.back()->data, rings.back()->bytes);
  };
  for (const ChannelSpec& spec : specs) {
    const bool sends = world.topology.hosts(spec.from_rank), receives = world.topology.hosts(spec.to_rank);
    ChannelEnds ends{.spec = spec};
    if (sends) {
      ends.sender = ranks[static_cast<std::size_t>(spec.from_rank)].get();
      ranks[static_cast<std::size_t>(spec.from_rank)]->add(spec, true);
    }
    if (receives) {
      ends.receiver = ranks[static_cast<std::size_t>(spec.to_rank)].get();
      ranks[static_cast<std::size_t>(spec.to_rank)]->add(spec, false);
      ends.receive_ring = new_ring(spec);
    } else if (sends) {
      ends.send_ring = new_ring(spec);
    }
    channels.push_back(ends);
  }

  Links links(world.topology, world.transport, channels, plan.piece_bytes);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world.topology.ranks(); ++rank) {
    if (world.topology.hosts(rank)) threads.emplace_back([&, rank] { ranks[static_cast<std::size_t>(rank)]->run(links, plan); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& rank : ranks) EXPECT_EQ(rank->failure(), nullptr) << rank->failure();
  for (const ChannelSpec& spec : specs) {
    if (world.topology.hosts(spec.from_rank) || world.topology.hosts(spec.to_rank)) check_counters(links, spec, plan);
  }
  links.close();
  for (const auto& ring : rings) EXPECT_TRUE(!ring->spec.on_device || ring->has_no_prefixes());
}

}  // namespace

void exchange(const std::vector<ChannelSpec>& specs, const ExchangePlan& plan) {
  exchange_once(specs, plan);
  if (link_world().transport == nullptr) return;
  // Between processes, also the way ranks on GPUs use links: only MPI touches the rings, and messages arrive in parts.
  auto others = specs;
  for (ChannelSpec& spec : others) spec.on_device = true;
  exchange_once(others, plan);
  others = specs;
  for (ChannelSpec& spec : others) spec.part_bytes = std::max<std::size_t>(spec.bytes / 3, 128);
  exchange_once(others, plan);
}

}  // namespace millrace::cluster
