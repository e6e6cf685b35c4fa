// Runs under mpirun: four ranks are divided among the processes, so that with two processes some channels stay in process.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "cluster/links/doorbells.hpp"
#include "cluster/links/link.hpp"
#include "cluster/links/mpi_world.hpp"
#include "tests/cluster/link_world.hpp"
#include "tests/cluster/transport_main.hpp"

namespace millrace::cluster {
namespace {

std::unique_ptr<Transport> transport;

TEST(Transport, KnowsItsProcessesAndBroadcasts) {
  EXPECT_EQ(transport->processes(), launch_from_environment().processes);
  EXPECT_EQ(transport->process(), launch_from_environment().process);
  EXPECT_EQ(transport->host(transport->process()), host_name());
  std::array<std::byte, 3> bytes{};
  if (transport->process() == 0) bytes = {std::byte{1}, std::byte{2}, std::byte{3}};
  transport->broadcast(bytes);
  EXPECT_EQ(bytes[2], std::byte{3});
}

TEST(Transport, TasksRunOnItsThreadAndGiveBackWhatTheyThrow) {
  EXPECT_THROW(transport->run([] { fail(ExitCode::data, "test", "thrown there"); }), Error);
}

/// A poller without work, which counts how often it is polled.
class IdlePoller final : public Poller {
 public:
  Activity poll() override {
    polls.fetch_add(1, std::memory_order_relaxed);
    return Activity::idle;
  }
  std::atomic<std::int64_t> polls{0};
};

// A transport without posted work polls about once per millisecond, so that it does not occupy a core that other threads compute
// on.
TEST(Transport, NapsWhileItHasNothingToDo) {
  using Milliseconds = std::chrono::duration<double, std::milli>;
  IdlePoller idle;
  transport->attach(idle);
  std::this_thread::sleep_for(std::chrono::milliseconds(60));  // it spins and yields first
  const auto begin = std::chrono::steady_clock::now();
  const auto before = idle.polls.load();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const auto looks = static_cast<double>(idle.polls.load() - before);
  // This holds however long the sleep was: without naps there would be hundreds of polls per millisecond.
  EXPECT_LT(looks, 10 + 10 * Milliseconds(std::chrono::steady_clock::now() - begin).count());
  transport->detach(idle);
}

struct Silent final : LinkEvents {
  void on_arrival(const Arrival&) override {}
  void on_writable(int, std::int64_t) override {}
};

// … and if receives are posted for which no message arrives.
TEST(Transport, NapsWhileItsLinksAreQuiet) {
  using Milliseconds = std::chrono::duration<double, std::milli>;
  const Topology topology(transport->processes(), transport->processes(), transport->process());
  Silent events;
  std::vector<ChannelEnds> channels;
  std::vector<std::unique_ptr<std::byte[]>> rings;
  for (int rank = 0; rank < topology.ranks(); ++rank) {  // channels around all processes, with short and long messages
    const ChannelSpec spec{rank, rank, (rank + 1) % topology.ranks(), ChannelKind::sums, 2, rank % 2 == 0 ? 100U : 100'000U};
    const auto ring = [&] {
      rings.push_back(std::make_unique<std::byte[]>(ring_bytes(spec) + 64));
      auto* base = rings.back().get();
      base += (64 - reinterpret_cast<std::uintptr_t>(base) % 64) % 64;
      return std::span(base, ring_bytes(spec));
    };
    ChannelEnds ends{spec, {}, {}, &events, &events};
    if (topology.hosts(spec.to_rank)) ends.receive_ring = ring();
    if (topology.hosts(spec.from_rank)) ends.send_ring = ring();
    channels.push_back(ends);
  }
  Links links(topology, transport.get(), channels);
  transport->barrier();
  IdlePoller idle;
  transport->attach(idle);
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  const auto begin = std::chrono::steady_clock::now();
  const auto before = idle.polls.load();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const auto looks = static_cast<double>(idle.polls.load() - before);
  EXPECT_LT(looks, 20 + 20 * Milliseconds(std::chrono::steady_clock::now() - begin).count());
  transport->detach(idle);
  links.close();
}

constexpr std::chrono::minutes never(10);  // longer than CTest lets the test run

TEST(Doorbells, ANapEndsWhenAnotherThreadRings) {
  Doorbells bells;
  bells.listen();
  bells.ring();
  bells.nap(never);  // returns immediately, since the bell has rung since then
  std::atomic<int> submitted{0};
  std::thread ringer([&] {
    for (int count = 1; count <= 2000; ++count) {
      if (count % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      submitted.store(count, std::memory_order_relaxed);
      bells.ring();
      while (submitted.load(std::memory_order_relaxed) != 0) std::this_thread::yield();
    }
  });
  for (int taken = 0; taken < 2000;) {  // as the transport does: a ring between the two polls is not lost
    bells.listen();
    if (submitted.exchange(0, std::memory_order_relaxed) != 0) {
      ++taken;
      bells.ignore();
    } else {
      bells.nap(never);
    }
  }
  ringer.join();
}

TEST(Doorbells, ANapEndsAfterItsTime) {
  Doorbells bells;
  bells.ring();  // nobody listens yet
  bells.listen();
  const auto begin = std::chrono::steady_clock::now();
  bells.nap(std::chrono::microseconds(20'000));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(20));
}

TEST(Doorbells, ANapEndsWhenANeighbourRings) {
  Doorbells bells;
  transport->run([&] {
    bells.open();
    EXPECT_EQ(bells.heard_by_all(), transport->one_host());
    // The rings travel around the processes, so each process waits and rings.
    const int next = (transport->process() + 1) % transport->processes();
    bells.listen();
    MPI_Barrier(transport->world().control);
    const auto begin = std::chrono::steady_clock::now();
    if (transport->process() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      bells.ring(next);
    }
    bells.nap(never);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(25));
    if (transport->process() != 0) bells.ring(next);
    bells.close();
    EXPECT_FALSE(bells.heard_by_all());
    EXPECT_FALSE(bells.listens());
    bells.listen();
    bells.ring();  // only its own bell remains
    bells.nap(never);
  });
}

}  // namespace

LinkWorld& link_world() {
  static LinkWorld world{Topology(4, transport->processes(), transport->process()), transport.get()};
  return world;
}

}  // namespace millrace::cluster

int main(int argc, char** argv) { return millrace::cluster::run_with_transport(argc, argv, millrace::cluster::transport); }
