// What a client that hammers the status endpoint takes from a step. Three arms take turns, a block of steps each: nobody asks; a client of
// its own process asks the run as fast as it can on several connections; the same client asks a stand-in, another process with the same
// server. The last tells what the client itself costs where it shares the cores with the run; the run's own part is the ratio of the
// second to it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "actors/live_status.hpp"
#include "benchmarks/pipeline/hammer.hpp"
#include "benchmarks/pipeline/pipeline_driver.hpp"
#include "cluster/status_server.hpp"
#include "kernels/base/check.hpp"
#include "runtime/median.hpp"

namespace millrace::benchmarks {
namespace {

constexpr double wanted_ratio = 1.01;
constexpr int connections = 8;
constexpr std::int64_t block_steps = 34;  // of one arm, then the next
constexpr std::int64_t lead_steps = 4;    // of a block, not counted: what the arm before began is over
constexpr double learning_rate = 1e-4, clip = 1.0;

enum Arm { quiet, hammered, stand_in, arms };
constexpr std::array<const char*, arms> names{"nobody asks", "the run is asked", "a stand-in is"};

PipelineArguments default_arguments() {
  PipelineArguments arguments;
  arguments.layers = 2;
  arguments.hidden = 128;
  arguments.mlp = 352;
  arguments.vocabulary = 512;
  arguments.sequence = 64;
  arguments.microbatches = 4;
  arguments.ranks = 2;
  arguments.threads = 1;
  arguments.steps = 300;  // of each arm
  return arguments;
}

/// What the reporter would tell.
actors::StepRecord record_of(std::int64_t number, const PipelineDriver::Step& step, const PipelineArguments& arguments) {
  actors::StepRecord record;
  record.step = number;
  record.steps = number + 1;
  record.loss = step.loss;
  record.gradient_norm = step.norm;
  record.tokens = arguments.rows * arguments.sequence * arguments.microbatches;
  record.seconds = step.seconds;
  record.ranks.resize(static_cast<std::size_t>(arguments.ranks));
  return record;
}

struct ArmTimes {
  std::vector<double> seconds;  // of a step
  std::vector<double> blocks;   // median of each block
  std::int64_t answers = 0;
  double client_seconds = 0, wall = 0;
};

int run(int count, char** words) {
  const auto arguments = PipelineArguments::parse(count, words, default_arguments());
  fmt::print("{}; {} connections\n", arguments.text(), connections);
  std::fflush(stdout);
  Hammer hammer(connections);  // before there are threads
  const int other_port = start_stand_in(4096);

  PipelineDriver driver(arguments);
  actors::LiveRun about;
  about.ranks = static_cast<int>(arguments.ranks);
  about.schedule = arguments.schedule;
  about.layout = driver.plan().layout_text();
  actors::LiveStatus live(about, driver.session(), driver.pipeline());
  cluster::StatusConfig config;
  config.port = 0;
  cluster::StatusServer server(config, "");
  server.start(live.pages());
  const std::array<int, arms> ports{0, server.port(), other_port};

  std::array<ArmTimes, arms> times;
  std::int64_t number = 0;
  const std::int64_t rounds = std::max<std::int64_t>(2, arguments.steps / (block_steps - lead_steps));
  for (std::int64_t round = -1; round < rounds; ++round) {  // the first is warm-up
    for (int turn = 0; turn < arms; ++turn) {
      const int arm = static_cast<int>((turn + round + arms) % arms);  // each is first, second and third in its turn
      auto& time = times[static_cast<std::size_t>(arm)];
      const auto answers = hammer.answers();
      const double client = hammer.cpu_seconds();
      hammer.strike(ports[static_cast<std::size_t>(arm)]);
      std::vector<double> block;
      for (std::int64_t i = 0; i < block_steps; ++i) {
        const auto step = driver.step(learning_rate, clip);
        live.step(record_of(++number, step, arguments));
        if (round < 0) continue;
        time.wall += step.seconds;
        if (i >= lead_steps) block.push_back(step.seconds);
      }
      hammer.strike(0);
      if (round < 0) continue;
      time.answers += hammer.answers() - answers;
      time.client_seconds += hammer.cpu_seconds() - client;
      time.seconds.insert(time.seconds.end(), block.begin(), block.end());
      time.blocks.push_back(runtime::median(block));
    }
  }

  fmt::print("{:>18} {:>9} {:>9} {:>11} {:>16}\n", "ms a step", "least", "median", "answers/s", "client's CPU %");
  for (std::size_t arm = 0; arm < arms; ++arm) {
    const auto& time = times[arm];
    fmt::print("{:>18} {:>9.3f} {:>9.3f} {:>11.1f} {:>16.2f}\n", names[arm], 1e3 * *std::ranges::min_element(time.seconds),
               1e3 * runtime::median(time.seconds), static_cast<double>(time.answers) / time.wall, 100 * time.client_seconds / time.wall);
  }
  const auto ratios = [&](Arm over, Arm under) {
    std::vector<double> each;
    for (std::size_t i = 0; i < times[over].blocks.size(); ++i) each.push_back(times[over].blocks[i] / times[under].blocks[i]);
    const auto least = [&](Arm arm) { return *std::ranges::min_element(times[arm].seconds); };
    return std::array{least(over) / least(under), runtime::median(times[over].seconds) / runtime::median(times[under].seconds),
                      runtime::median(each)};
  };
  const auto asked = ratios(hammered, quiet), own = ratios(hammered, stand_in);
  fmt::print("asked / quiet:    least {:.4f}, medians {:.4f}, median of the rounds {:.4f}; wanted at most {}\n", asked[0], asked[1],
             asked[2], wanted_ratio);
  fmt::print("asked / stand-in: least {:.4f}, medians {:.4f}, median of the rounds {:.4f}\n", own[0], own[1], own[2]);
  return 0;
}

}  // namespace
}  // namespace millrace::benchmarks

int main(int count, char** words) { return millrace::benchmarks::run_benchmark(millrace::benchmarks::run, count, words); }
