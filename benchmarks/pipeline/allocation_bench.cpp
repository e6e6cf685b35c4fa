// Counts allocations in steady steps: a pipeline in this process runs some warm-up steps, then every allocation is counted by
// thread and by owner. Exit status 1 if our code allocates at all, or if any code allocates 4 KiB or more.
//
//     allocation_bench [steps=20 ranks=4 schedule=zb-h1 microbatches=8 dtype=fp32 …]

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "benchmarks/pipeline/allocation_log.hpp"
#include "benchmarks/pipeline/pipeline_driver.hpp"

namespace millrace::benchmarks {
namespace {

constexpr std::size_t kLarge = 4096;
constexpr int kSettlingSteps = 6;

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

/// The owner of an allocation: the innermost function that belongs to a component. The standard library, fmt and operator new
/// allocate on behalf of others.
std::string owner(const AllocationSite& site) {
  for (const std::string& frame : site.frames) {
    if (contains(frame, "[libcaf")) return "CAF";
    if (contains(frame, "[libcrypto")) return "OpenSSL";
    // without the arguments of types and calls
    const std::string_view name = std::string_view(frame).substr(0, frame.find_first_of("<([", 1));
    if (contains(name, "caf::")) return "CAF";
    if (contains(name, "boost::asio")) return "Asio";
    if (contains(name, "StepReport::StepReport")) return "message";  // the copy that is sent to the coordinator: one per rank and step
    if (contains(frame, "millrace::benchmarks")) return "benchmark";
    if (contains(name, "millrace::")) return "ours";
  }
  return "unknown";
}

void print_site(const AllocationSite& site, std::int64_t steps) {
  fmt::print("  {:.1f} a step, up to {} bytes, on {}\n", static_cast<double>(site.count) / static_cast<double>(steps), site.largest,
             site.thread);
  const std::size_t shown = std::min<std::size_t>(site.frames.size(), 14);
  for (std::size_t frame = 0; frame < shown; ++frame) fmt::print("      {:.160}\n", site.frames[frame]);
}

int run(int count, char** words) {
  PipelineArguments arguments;
  arguments.layers = 4;
  arguments.hidden = 64;
  arguments.mlp = 176;
  arguments.heads = 4;
  arguments.kv_heads = 2;
  arguments.vocabulary = 512;
  arguments.sequence = 64;
  arguments.microbatches = 8;
  arguments.ranks = 4;
  arguments.schedule = "zb-h1";
  arguments.steps = 20;
  arguments = PipelineArguments::parse(count, words, arguments);
  fmt::print("{}\n", arguments.text());

  name_this_thread("main");
  PipelineDriver driver(arguments);
  for (auto* rank : driver.ranks()) {
    rank->worker().run([rank] {
      rank->context().team().run([](int, int) { name_this_thread("team"); });
      name_this_thread("worker");
    });
  }
  for (int step = 0; step < kSettlingSteps; ++step) driver.step(1e-3, 1.0);
  start_counting();
  for (std::int64_t step = 0; step < arguments.steps; ++step) driver.step(1e-3, 1.0);
  stop_counting();

  auto sites = allocation_sites();
  std::sort(sites.begin(), sites.end(), [](const auto& a, const auto& b) { return a.count > b.count; });
  std::map<std::pair<std::string, std::string>, std::pair<std::uint64_t, std::size_t>> table;
  std::uint64_t ours = 0, large = 0;
  for (const auto& site : sites) {
    const std::string allocator = owner(site);
    auto& [total, largest] = table[{site.thread, allocator}];
    total += site.count;
    largest = std::max(largest, site.largest);
    if (allocator == "ours") ours += site.count;
    if (site.largest >= kLarge) large += site.count;
  }
  fmt::print("{:<10} {:<10} {:>12} {:>14}\n", "thread", "owner", "a step", "largest, bytes");
  for (const auto& [key, value] : table)
    fmt::print("{:<10} {:<10} {:>12.1f} {:>14}\n", key.first, key.second,
               static_cast<double>(value.first) / static_cast<double>(arguments.steps), value.second);
  for (const auto& site : sites) {
    const std::string allocator = owner(site);
    if (allocator != "ours" && allocator != "unknown" && site.largest < kLarge) continue;
    fmt::print("\n{}:\n", allocator);
    print_site(site, arguments.steps);
  }
  fmt::print("\nour code: {} allocations in {} steps; allocations of {} bytes or more: {}\n", ours, arguments.steps, kLarge, large);
  return ours == 0 && large == 0 ? 0 : 1;
}

}  // namespace
}  // namespace millrace::benchmarks

int main(int count, char** words) { return millrace::benchmarks::run_benchmark(millrace::benchmarks::run, count, words); }
