// Latency and bandwidth of the MPI link, compared with a bare MPI loop in the same run, alternating:
//   mpirun -np 2 --bind-to none build/release/benchmarks/links/link_bench [rounds] [largest bytes] [smallest bytes] [--check]
// Both loops run on the transport thread, so that only the link differs: its prefix, sequence checks, polling and calls. Each
// measurement of the link is between two of MPI. The output has medians over these triples: the time that the link adds to the
// mean of the two, and the difference between the two, which shows how much the machine's other work disturbs a measurement. A
// link should take at most 2 µs more than MPI (or 5 % if that is more) and reach 95 % of its bandwidth. With `--check`, exits
// with 1 if it fails that by more than the difference between the two.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "benchmarks/links/turns.hpp"
#include "cluster/host/affinity.hpp"
#include "cluster/links/transport.hpp"
#include "runtime/median.hpp"

namespace millrace::cluster {
namespace {

using runtime::median;

/// Medians over triples MPI, link, MPI, in seconds.
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
    std::fprintf(stderr, "link_bench: %d processes, expected mpirun -np 2\n", transport.processes());
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
        // not counted: after the other kind of loop the cache holds other memory, and the next run is 350 µs faster
        mpi(transport, test);
        const double before = mpi(transport, test), between = link_turn(transport, test, ping_pong), after = mpi(transport, test);
        if (round > 0) readings.take(before, between, after);  // the first round is a warm-up
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
