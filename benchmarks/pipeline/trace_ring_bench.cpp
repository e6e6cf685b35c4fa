// The cost of the always-on trace: steps of a whole pipeline in this process, alternating between recording and not recording.
//
//     trace_ring_bench [steps=200 ranks=4 schedule=1f1b layers=4 hidden=128 …]
//
// The default is a small model with short actions, for which the relative cost of records is highest.

#include <fmt/format.h>

#include "benchmarks/pipeline/paired_times.hpp"
#include "benchmarks/pipeline/pipeline_driver.hpp"

namespace millrace::benchmarks {
namespace {

PipelineArguments small_model() {
  PipelineArguments arguments;
  arguments.layers = 4;
  arguments.hidden = 64;
  arguments.mlp = 176;
  arguments.heads = 4;
  arguments.kv_heads = 2;
  arguments.vocabulary = 256;
  arguments.rows = 1;
  arguments.sequence = 64;
  arguments.microbatches = 16;
  arguments.ranks = 4;
  arguments.threads = 1;
  arguments.steps = 200;
  return arguments;
}

int run(int count, char** words) {
  const auto arguments = PipelineArguments::parse(count, words, small_model());
  fmt::print("{}\n", arguments.text());
  PipelineDriver driver(arguments);
  const auto timed = [&](bool keep) {
    for (auto* rank : driver.ranks()) rank->trace().keep(keep);
    return driver.step(3e-4, 1.0).seconds;
  };
  PairedTimes times;
  for (std::int64_t step = 0; step < arguments.steps + 2; ++step) {
    // They also alternate in who goes first.
    const bool first = step % 2 == 0;
    const double one = timed(first), other = timed(!first);
    if (step < 2) continue;  // warm-up
    times.add(first ? one : other, first ? other : one);
  }
  times.print("ring on", "ring off", "expected 1.01 at most");
  return 0;
}

}  // namespace
}  // namespace millrace::benchmarks

int main(int count, char** words) { return millrace::benchmarks::run_benchmark(millrace::benchmarks::run, count, words); }
