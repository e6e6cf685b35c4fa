// Exchanges between processes, one member each, compared with MPI_Alltoallv in the same run, alternating:
//   mpirun -np 2 --bind-to none build/release/benchmarks/links/exchange_bench [rounds=15] [largest bytes per pair] [smallest] [--check]
// with 2 or 4 processes. First while nothing else runs: both on the transport thread, one exchange directly after the other; each
// measurement of exchanges is between two of MPI, and the output has medians over these triples, as that of link_bench, and the ratio of
// the minima. An exchange should take at most 3 us more than MPI_Alltoallv at 8 bytes and reach 95 % of its bandwidth from 64 KiB on. Then
// while a worker computes in each process: process 0 begins an exchange after a pause, when the others already wait for it, and the output
// has percentiles of its times, and the matrix products that its worker finished meanwhile, since MPI_Alltoallv spins at its expense. The
// 90th percentile should be at most 1.2 times MPI's. With `--check`, exits with 1 if the first part fails by more than the difference
// between two measurements of MPI, or the second at all.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "benchmarks/links/busy_team.hpp"
#include "benchmarks/links/exchange_turns.hpp"
#include "cluster/host/affinity.hpp"
#include "cluster/links/transport.hpp"
#include "cluster/topology.hpp"
#include "runtime/median.hpp"

namespace millrace::cluster {
namespace {

using runtime::median;
using Clock = std::chrono::steady_clock;

double percentile(std::vector<double> values, double share) {
  const auto nth = values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), nth, values.end());
  return *nth;
}

bool idle(Transport& transport, std::size_t bytes, int rounds) {
  ExchangeCase test(transport, bytes);
  std::vector<double> mpi, exchange, added, share, noise;
  for (int round = 0; round < rounds + 1; ++round) {
    repeated_alltoallv(transport, test);  // not counted, as in link_bench
    const double before = repeated_alltoallv(transport, test), between = repeated_exchange(transport, test),
                 after = repeated_alltoallv(transport, test), mean = (before + after) / 2;
    if (round == 0) continue;  // a warm-up
    mpi.push_back(mean);
    exchange.push_back(between);
    added.push_back(between - mean);
    share.push_back(mean / between);
    noise.push_back(std::abs(after - before));
  }
  if (transport.process() != 0) return true;
  const double gigabytes = static_cast<double>(bytes) * (test.processes - 1) / 1e9, differs = median(noise) / median(mpi),
               best = *std::min_element(mpi.begin(), mpi.end()) / *std::min_element(exchange.begin(), exchange.end());
  fmt::print("{:>10} {:>11.2f} {:>11.2f} {:>8.2f} {:>8.2f} {:>9.3f} {:>9.3f} {:>6.1f}% {:>6.1f}% {:>6.1f}%\n", bytes, median(mpi) * 1e6,
             median(exchange) * 1e6, median(added) * 1e6, median(noise) * 1e6, gigabytes / median(mpi), gigabytes / median(exchange),
             100 * median(share), 100 * differs, 100 * best);
  std::fflush(stdout);
  return bytes < 65536 ? median(added) <= 3e-6 + median(noise) : median(share) >= 0.95 - differs;
}

/// Times of one kind of exchange, and products of the worker per second meanwhile.
struct Paced {
  std::vector<double> seconds;
  double products = 0, whole = 0;

  template <class Turns>
  void take(const BusyTeam& team, Turns&& turns) {
    const auto start = Clock::now();
    const long before = team.products();
    const auto more = turns();
    seconds.insert(seconds.end(), more.begin(), more.end());
    products += static_cast<double>(team.products() - before);
    whole += std::chrono::duration<double>(Clock::now() - start).count();
  }
};

bool busy(Transport& transport, const BusyTeam& team, std::size_t bytes, int rounds) {
  ExchangeCase test(transport, bytes);
  Paced mpi, exchange;
  const int turns = bytes > (std::size_t{1} << 20) ? 30 : 100;
  for (int round = 0; round < rounds; ++round) {
    mpi.take(team, [&] { return paced_alltoallv(transport, test, turns); });
    exchange.take(team, [&] { return paced_exchange(transport, test, turns); });
  }
  if (transport.process() != 0) return true;
  const auto ratio = [&](double share) { return percentile(exchange.seconds, share) / percentile(mpi.seconds, share); };
  fmt::print("{:>10} {:>11.1f} {:>11.1f} {:>7.3f} {:>11.1f} {:>11.1f} {:>7.3f} {:>10.0f} {:>10.0f}\n", bytes,
             percentile(mpi.seconds, 0.5) * 1e6, percentile(exchange.seconds, 0.5) * 1e6, ratio(0.5), percentile(mpi.seconds, 0.9) * 1e6,
             percentile(exchange.seconds, 0.9) * 1e6, ratio(0.9), mpi.products / mpi.whole, exchange.products / exchange.whole);
  std::fflush(stdout);
  return ratio(0.9) <= 1.2;
}

int measure(int rounds, std::size_t smallest, std::size_t largest, bool check) {
  Transport transport;
  if (transport.processes() < 2) {
    std::fprintf(stderr, "exchange_bench: 1 process, expected mpirun -np 2 or 4\n");
    return 2;
  }
  bool good = true;
  const bool prints = transport.process() == 0;
  if (prints)
    fmt::print("{:>10} {:>11} {:>11} {:>8} {:>8} {:>9} {:>9} {:>7} {:>7} {:>7}\n", "bytes", "MPI us", "exchange us", "+us", "MPI +-us",
               "MPI GB/s", "GB/s", "share", "MPI +-", "minima");
  for (const std::size_t bytes :
       {std::size_t{8}, std::size_t{64} << 10, std::size_t{512} << 10, std::size_t{4} << 20, std::size_t{64} << 20})
    if (bytes >= smallest && bytes <= largest) good &= idle(transport, bytes, rounds);
  {
    const BusyTeam team(transport, 1, {}, true);
    if (prints)
      fmt::print("\na worker computes in each process\n{:>10} {:>11} {:>11} {:>7} {:>11} {:>11} {:>7} {:>10} {:>10}\n", "bytes",
                 "MPI p50 us", "p50 us", "ratio", "MPI p90 us", "p90 us", "ratio", "MPI prod/s", "prod/s");
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{64} << 10, std::size_t{1} << 20, std::size_t{16} << 20})
      if (bytes >= smallest && bytes <= largest) good &= busy(transport, team, bytes, std::max(1, rounds / 3));
    transport.barrier();
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
  const std::size_t smallest = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 8;
  return measure(rounds, smallest, largest, check);
}
