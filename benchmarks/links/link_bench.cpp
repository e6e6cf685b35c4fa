// Latency and bandwidth of the MPI link against a bare MPI loop in the same run, taking turns:
//   mpirun -np 2 --bind-to none build/release/benchmarks/links/link_bench [rounds] [largest bytes] [smallest bytes] [--check]
// Both loops run on the transport thread, so that what differs is the link: its prefix, sequence checks, polling and calls.
// A turn of the link stands between two of MPI; what is printed are medians over these threes: what the link adds to their mean, and beside
// it by how much the two of MPI differ, which is what the machine's other work does to a turn.
// A link takes at most 2 µs more than MPI (5 % of it where that is more) and reaches 95 % of its bandwidth. With `--check`: exits 1 when it
// does not by more than the two of MPI differ.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "cluster/affinity.hpp"
#include "cluster/link.hpp"
#include "cluster/mpi_world.hpp"
#include "cluster/transport.hpp"
#include "runtime/median.hpp"

namespace millrace::cluster {
namespace {

using Clock = std::chrono::steady_clock;
using runtime::median;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Ring {
  explicit Ring(std::size_t size) : bytes((size + 63) / 64 * 64), data(static_cast<std::byte*>(std::aligned_alloc(64, bytes))) {
    std::memset(data, 1, bytes);  // touched, so that no page fault is measured
  }
  ~Ring() { std::free(data); }
  Ring(const Ring&) = delete;
  std::size_t bytes;
  std::byte* data;
};

/// Both directions between the two processes.
struct Case {
  explicit Case(std::size_t size)
      : bytes(size),
        depth(static_cast<int>(std::clamp<std::size_t>((std::size_t{16} << 20) / std::max<std::size_t>(size, 1), 2, 16))),
        down{0, 0, 1, ChannelKind::activation, depth, size},
        up{1, 1, 0, ChannelKind::activation, depth, size},
        send_ring(ring_bytes(down)),
        receive_ring(ring_bytes(down)) {}
  std::size_t bytes;
  int depth;
  ChannelSpec down, up;
  Ring send_ring, receive_ring;
  [[nodiscard]] std::int64_t stream_messages() const {
    return std::clamp<std::int64_t>(static_cast<std::int64_t>((std::size_t{64} << 20) / std::max<std::size_t>(bytes, 1)), 16, 10000);
  }
  [[nodiscard]] std::int64_t ping_pongs() const {
    return std::clamp<std::int64_t>(static_cast<std::int64_t>((std::size_t{32} << 20) / std::max<std::size_t>(bytes, 1)), 4, 2000);
  }
};

// -- bare MPI ---------------------------------------------------------------------------

double mpi_ping_pong(Transport& transport, Case& test) {
  const MPI_Comm communicator = transport.world().by_kind[1];
  const int peer = 1 - transport.process(), bytes = static_cast<int>(test.bytes);
  double seconds = 0;
  transport.run([&] {
    MPI_Barrier(communicator);
    const auto start = Clock::now();
    for (std::int64_t turn = 0; turn < test.ping_pongs(); ++turn) {
      // The same walk over the ring as the link's: a single buffer would stay in the cache.
      const std::size_t at = static_cast<std::size_t>(turn % test.depth) * slot_stride(test.down);
      if (transport.process() == 0) MPI_Send(test.send_ring.data + at, bytes, MPI_BYTE, peer, 0, communicator);
      MPI_Recv(test.receive_ring.data + at, bytes, MPI_BYTE, peer, 0, communicator, MPI_STATUS_IGNORE);
      if (transport.process() == 1) MPI_Send(test.send_ring.data + at, bytes, MPI_BYTE, peer, 0, communicator);
    }
    seconds = seconds_since(start) / 2 / static_cast<double>(test.ping_pongs());
  });
  return seconds;
}

double mpi_stream(Transport& transport, Case& test) {
  const MPI_Comm communicator = transport.world().by_kind[1];
  const bool sends = transport.process() == 0;
  const int bytes = static_cast<int>(test.bytes);
  double seconds = 0;
  transport.run([&] {
    std::vector<MPI_Request> window(static_cast<std::size_t>(test.depth), MPI_REQUEST_NULL);
    const auto post = [&](std::int64_t message) {
      const auto slot = static_cast<std::size_t>(message % test.depth);
      std::byte* data = (sends ? test.send_ring : test.receive_ring).data + slot * slot_stride(test.down);
      if (sends) {
        MPI_Isend(data, bytes, MPI_BYTE, 1, 0, communicator, &window[slot]);
      } else {
        MPI_Irecv(data, bytes, MPI_BYTE, 0, 0, communicator, &window[slot]);
      }
    };
    if (!sends) {
      for (int message = 0; message < test.depth; ++message) post(message);
    }
    MPI_Barrier(communicator);
    const auto start = Clock::now();
    const std::int64_t messages = test.stream_messages();
    for (std::int64_t message = 0; message < messages; ++message) {
      MPI_Wait(&window[static_cast<std::size_t>(message % test.depth)], MPI_STATUS_IGNORE);
      if (sends) {
        post(message);
      } else if (message + test.depth < messages) {
        post(message + test.depth);
      }
    }
    MPI_Waitall(test.depth, window.data(), MPI_STATUSES_IGNORE);
    MPI_Barrier(communicator);
    seconds = seconds_since(start) / static_cast<double>(messages);
  });
  return seconds;
}

// -- the link ---------------------------------------------------------------------------

/// Answers each arrival (ping-pong), or sends and releases as fast as slots allow (stream), all from the link's own calls.
class Player final : public LinkEvents {
 public:
  Player(Case& test, int process, bool ping_pong) : test_(test), process_(process), ping_pong_(ping_pong) {}

  void on_arrival(const Arrival& arrival) override {
    in_->release(arrival.sequence);
    ++arrived_;
    if (ping_pong_) {
      allowed_ = process_ == 0 ? std::min(arrived_ + 1, total()) : arrived_;
      push();
    } else if (process_ == 1 && arrived_ == total()) {
      allowed_ = 1;  // the word that all is there
      push();
    }
    finish();
  }
  void on_writable(int, std::int64_t sequence) override {
    writable_ = sequence + 1;
    push();
    finish();
  }

  double run(Transport& transport, Link& out, Link& in) {
    out_ = &out;
    in_ = &in;
    transport.barrier();
    const auto start = Clock::now();
    transport.run([&] {
      if (process_ == 0) allowed_ = ping_pong_ ? 1 : total();
      push();
    });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_; });
    return std::chrono::duration<double>(end_ - start).count() / static_cast<double>(total()) / (ping_pong_ ? 2 : 1);
  }

 private:
  [[nodiscard]] std::int64_t total() const { return ping_pong_ ? test_.ping_pongs() : test_.stream_messages(); }
  [[nodiscard]] std::int64_t to_send() const { return ping_pong_ || process_ == 0 ? total() : 1; }
  [[nodiscard]] std::int64_t to_receive() const { return ping_pong_ || process_ == 1 ? total() : 1; }
  void push() {
    for (; sent_ < allowed_ && sent_ < writable_ + test_.depth; ++sent_) out_->send(sent_, test_.bytes, 1);
  }
  void finish() {
    if (arrived_ < to_receive() || writable_ < to_send() || sent_ < to_send()) return;
    const std::lock_guard lock(mutex_);
    end_ = Clock::now();
    done_ = true;
    changed_.notify_all();
  }

  Case& test_;
  const int process_;
  const bool ping_pong_;
  Link* out_ = nullptr;
  Link* in_ = nullptr;
  std::int64_t arrived_ = 0, allowed_ = 0, sent_ = 0, writable_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  Clock::time_point end_;
};

double link_turn(Transport& transport, Case& test, bool ping_pong) {
  Player player(test, transport.process(), ping_pong);
  std::vector<ChannelEnds> channels;
  const bool first = transport.process() == 0;
  const std::span send(test.send_ring.data, test.send_ring.bytes), receive(test.receive_ring.data, test.receive_ring.bytes);
  channels.push_back(first ? ChannelEnds{test.down, {}, send, &player, nullptr} : ChannelEnds{test.down, receive, {}, nullptr, &player});
  channels.push_back(first ? ChannelEnds{test.up, receive, {}, nullptr, &player} : ChannelEnds{test.up, {}, send, &player, nullptr});
  Links links(Topology(2, 2, transport.process()), &transport, channels);
  const double seconds = player.run(transport, links.link(first ? 0 : 1), links.link(first ? 1 : 0));
  links.close();
  return seconds;
}

/// Of turns in threes, MPI, link, MPI, in seconds: medians.
struct Readings {
  std::vector<double> mpi, link, added, share, noise;
  void take(double before, double between, double after) {
    const double mean = (before + after) / 2;
    mpi.push_back(mean);
    link.push_back(between);
    added.push_back(between - mean);
    share.push_back(mean / between);
    noise.push_back(std::abs(after - before));
  }
};

int measure(int rounds, std::size_t smallest, std::size_t largest, bool check) {
  Transport transport;
  if (transport.processes() != 2) {
    std::fprintf(stderr, "link_bench: %d processes, wanted mpirun -np 2\n", transport.processes());
    return 2;
  }
  bool good = true;
  if (transport.process() == 0)
    fmt::print("{:>10} {:>10} {:>10} {:>8} {:>8} {:>10} {:>10} {:>7} {:>7}\n", "bytes", "MPI us", "link us", "+us", "MPI +-us", "MPI GB/s",
               "link GB/s", "share", "MPI +-");
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = smallest; bytes < largest; bytes *= 8) sizes.push_back(bytes);
  sizes.push_back(largest);
  for (const std::size_t bytes : sizes) {
    Case test(bytes);
    Readings latency, stream;
    for (int round = 0; round < rounds + 1; ++round) {
      const auto three = [&](Readings& readings, auto mpi, bool ping_pong) {
        const double before = mpi(transport, test), between = link_turn(transport, test, ping_pong), after = mpi(transport, test);
        if (round > 0) readings.take(before, between, after);  // the first round warms up
      };
      three(latency, mpi_ping_pong, true);
      three(stream, mpi_stream, false);
    }
    if (transport.process() != 0) continue;
    const double gigabytes = static_cast<double>(bytes) / 1e9, mpi = median(latency.mpi), added = median(latency.added),
                 noise = median(latency.noise), share = median(stream.share), stream_noise = median(stream.noise) / median(stream.mpi);
    fmt::print("{:>10} {:>10.2f} {:>10.2f} {:>8.2f} {:>8.2f} {:>10.3f} {:>10.3f} {:>6.1f}% {:>6.1f}%\n", bytes, mpi * 1e6,
               median(latency.link) * 1e6, added * 1e6, noise * 1e6, gigabytes / median(stream.mpi), gigabytes / median(stream.link),
               100 * share, 100 * stream_noise);
    std::fflush(stdout);
    good &= added <= std::max(2e-6, 0.05 * mpi) + noise && share >= 0.95 - stream_noise;
  }
  transport.finalize();
  return check && !good ? 1 : 0;
}

}  // namespace
}  // namespace millrace::cluster

int main(int argc, char** argv) {
  using namespace millrace::cluster;
  widen_affinity();
  const bool check = argc > 1 && std::strcmp(argv[argc - 1], "--check") == 0;
  if (check) --argc;
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 15;
  const std::size_t largest = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : std::size_t{64} << 20;
  const std::size_t smallest = argc > 3 ? std::max(1ULL, std::strtoull(argv[3], nullptr, 10)) : 8;
  return measure(rounds, smallest, largest, check);
}
