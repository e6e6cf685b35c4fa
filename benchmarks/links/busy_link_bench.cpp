// The MPI link compared with a bare MPI loop, alternating, while both processes compute:
//   mpirun -np 2 --bind-to none build/release/benchmarks/links/busy_link_bench [rounds=5] [untold]
// Each process keeps as many cores busy as its rank would have; the loops run on the transport threads beside that. The transport
// knows that its worker computes, as in a run; with `untold` it does not, and never sleeps for long. The output has half the
// round-trip time of 8-byte messages with pauses in between, and the number of matrix products that the team of process 0
// finished meanwhile, since a spinning loop is fast at the team's expense; then the bandwidth from 1 to 64 MiB; finally a line of
// JSON for compare_peers.sh.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "benchmarks/links/busy_team.hpp"
#include "benchmarks/links/paced_turns.hpp"
#include "benchmarks/links/turns.hpp"
#include "cluster/host/affinity.hpp"
#include "cluster/links/transport.hpp"
#include "cluster/topology.hpp"
#include "runtime/median.hpp"

namespace millrace::cluster {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t mebibyte = std::size_t{1} << 20;

double percentile(std::vector<double> values, double share) {
  const auto nth = values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), nth, values.end());
  return *nth;
}

constexpr int turns = 300;

/// The results of one kind of loop: half round trips in seconds, and products of the team per second meanwhile.
struct Latency {
  std::vector<double> halves;
  double products = 0, seconds = 0;

  template <class Turn>
  void take(const BusyTeam& team, Turn&& turn) {
    const auto start = Clock::now();
    const long before = team.products();
    const auto more = turn();
    halves.insert(halves.end(), more.begin(), more.end());
    products += static_cast<double>(team.products() - before);
    seconds += std::chrono::duration<double>(Clock::now() - start).count();
  }
  [[nodiscard]] std::string text(const char* name) const {
    return fmt::format("{:>5} {:>10.1f} {:>10.1f} {:>10.1f} {:>14.0f}\n", name, percentile(halves, 0.5) * 1e6,
                       percentile(halves, 0.9) * 1e6, percentile(halves, 0.99) * 1e6, products / seconds);
  }
};

/// The JSON members of both at 8 bytes.
std::string latency(Transport& transport, const BusyTeam& team, int rounds) {
  Case test(8);
  Latency mpi, link;
  for (int round = 0; round < rounds; ++round) {
    mpi.take(team, [&] { return paced_mpi(transport, test, turns); });
    link.take(team, [&] { return paced_link(transport, test, turns); });
  }
  if (transport.process() != 0) return {};
  fmt::print("{:>5} {:>10} {:>10} {:>10} {:>14}\n{}{}", "8 B", "p50 us", "p90 us", "p99 us", "products a s", mpi.text("MPI"),
             link.text("link"));
  return fmt::format(R"("link_p90_us": {:.2f}, "mpi_p90_us": {:.2f})", percentile(link.halves, 0.9) * 1e6,
                     percentile(mpi.halves, 0.9) * 1e6);
}

std::string bandwidth(Transport& transport, std::size_t bytes, int rounds) {
  Case test(bytes);
  std::vector<double> mpi, link;
  for (int round = 0; round < rounds + 1; ++round) {
    const double bare = mpi_stream(transport, test), ours = link_turn(transport, test, false);
    if (round == 0) continue;  // warm-up
    mpi.push_back(static_cast<double>(bytes) / bare * 1e-9);
    link.push_back(static_cast<double>(bytes) / ours * 1e-9);
  }
  if (transport.process() != 0) return {};
  const double theirs = runtime::median(mpi), ours = runtime::median(link);
  fmt::print("{:>3} MiB: MPI {:.3f} GB/s, link {:.3f} GB/s, {:.1f} %\n", bytes / mebibyte, theirs, ours, 100 * ours / theirs);
  return fmt::format(R"(, "mpi_{0}_mib": {1:.4f}, "link_{0}_mib": {2:.4f})", bytes / mebibyte, theirs, ours);
}

int measure(const std::vector<int>& cores, int rounds, bool knows_workers) {
  Transport transport;
  if (transport.processes() != 2) {
    std::fprintf(stderr, "busy_link_bench: %d processes, expected mpirun -np 2\n", transport.processes());
    return 2;
  }
  {
    const Topology topology(2, 2, transport.process());
    const Launch launch = launch_from_environment();
    const int threads = automatic_threads(topology, launch, static_cast<int>(cores.size()));
    const BusyTeam team(transport, threads, worker_cores(topology, launch, cores, threads).at(0), knows_workers);
    if (transport.process() == 0)
      fmt::print("{} threads per process compute; the transport {}\n", threads, knows_workers ? "knows it" : "does not know it");
    std::string json = latency(transport, team, rounds);
    for (const std::size_t size : {1, 8, 64}) json += bandwidth(transport, size * mebibyte, rounds);
    if (transport.process() == 0) fmt::print("{{{}}}\n", json);
    std::fflush(stdout);
    transport.barrier();
  }
  transport.finalize();
  return 0;
}

}  // namespace
}  // namespace millrace::cluster

int main(int argc, char** argv) {
  using namespace millrace::cluster;
  const auto cores = widen_affinity();
  const bool untold = argc > 1 && std::strcmp(argv[argc - 1], "untold") == 0;
  const int rounds = argc > (untold ? 2 : 1) ? std::max(1, std::atoi(argv[1])) : 5;
  return measure(cores, rounds, !untold);
}
