// The speed of the simulator on one core:
//   build/release/benchmarks/schedule/schedule_bench [--check]
// For sizes of a planner's search and for thousands of ranks it prints: seconds of processor time (excluding other programs) to
// generate the schedule, to simulate it with links, to simulate it with a trace and to compute the slack of every action; actions
// per second; peak memory of the process. With `--check` it exits with 1 if 4,096 ranks x 1,024 microbatches take 10 s or more in
// total, including generation.

#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstring>
#include <ctime>

#include "runtime/schedule/simulator/critical_path.hpp"
#include "runtime/schedule/simulator/simulate.hpp"

namespace {

using namespace millrace::runtime;
// Processor time of this process.
double now() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

double seconds_since(double start) { return now() - start; }

// The process's peak resident set so far.
double peak_gib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / (1 << 20);
}

// Seconds to generate the schedule and compute its makespan.
double measure(const ScheduleRequest& request) {
  auto start = now();
  const Schedule schedule = make_schedule(request);
  const double making = seconds_since(start);

  Costs costs;
  costs.stages = uniform_costs(schedule.placement, 1, 1.1, 0.8);
  costs.links = uniform_links(schedule.placement, 0.02);
  start = now();
  const Simulation quick = simulate(schedule, costs, false);
  const double timing = seconds_since(start);
  const double quick_gib = peak_gib();

  start = now();
  const Simulation traced = simulate(schedule, costs);
  const double tracing = seconds_since(start);
  start = now();
  const auto spare = slack(schedule, costs, traced);
  const auto path = critical_path(schedule, costs, traced);
  const double explaining = seconds_since(start);

  const auto actions = static_cast<double>(quick.actions());
  fmt::print("{:>14} {:>6} {:>6} {:>10} | {:>8.3f} {:>8.3f} {:>8.3f} {:>8.3f} | {:>8.1f} {:>8.1f} | {:>8.2f} {:>8.2f} | {:.3f} {:.2f} %\n",
             request.name, request.ranks, request.microbatches, quick.actions(), making, timing, tracing, explaining,
             actions / timing / 1e6, actions / (making + timing) / 1e6, quick_gib, peak_gib(), quick.makespan, 100 * quick.bubble());
  std::fflush(stdout);
  return making + timing;
}

}  // namespace

int main(int argc, char** argv) {
  const bool check = argc > 1 && std::strcmp(argv[1], "--check") == 0;
  fmt::print("{:>14} {:>6} {:>6} {:>10} | {:>8} {:>8} {:>8} {:>8} | {:>8} {:>8} | {:>8} {:>8} | {}\n", "schedule", "P", "M", "actions",
             "make s", "time s", "trace s", "slack s", "M/s", "with make", "GiB", "traced", "makespan, bubble");
  measure({"1f1b", 8, 1, 64, {}});
  measure({"interleaved", 32, 4, 512, {}});
  measure({"zb-v", 64, 2, 512, {}});
  const double large = measure({"1f1b", 4096, 1, 1024, {}});
  fmt::print("4,096 ranks x 1,024 microbatches: {:.2f} s to the makespan, expected below 10\n", large);
  return check && large >= 10 ? 1 : 0;
}
