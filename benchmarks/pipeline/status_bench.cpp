// The cost of heavy load on the status endpoint: blocks of steps with a client in another process that requests /status as fast
// as possible on several connections, alternating with blocks without requests.
//
//     status_bench [steps=1200 ranks=2 layers=2 hidden=128 …]
//
// The time of a block is the mean of its steps, since a response delays only some of them. The first steps of a block are not
// counted, because in these the client uses up the burst that the server allows after a pause.
#include <fmt/format.h>

#include "actors/telemetry/live_status.hpp"
#include "benchmarks/pipeline/hammer.hpp"
#include "benchmarks/pipeline/paired_times.hpp"
#include "benchmarks/pipeline/pipeline_driver.hpp"
#include "cluster/status/status_server.hpp"

namespace millrace::benchmarks {
namespace {

constexpr int connections = 8;
constexpr std::int64_t lead_steps = 24, block_steps = 60;
constexpr double learning_rate = 1e-4, clip = 1.0;

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
  arguments.steps = 1200;  // counted steps of each kind
  return arguments;
}

/// The record that the reporter would publish.
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

int run(int count, char** words) {
  const auto arguments = PipelineArguments::parse(count, words, default_arguments());
  fmt::print("{}; {} connections\n", arguments.text(), connections);
  std::fflush(stdout);
  Hammer hammer(connections);  // created before there are threads

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

  std::int64_t number = 0;
  const auto seconds_of = [&](std::int64_t steps) {
    double seconds = 0;
    for (std::int64_t i = 0; i < steps; ++i) {
      const auto step = driver.step(learning_rate, clip);
      live.step(record_of(++number, step, arguments));
      seconds += step.seconds;
    }
    return seconds;
  };
  std::int64_t answers = 0;
  double asked_seconds = 0, client_seconds = 0;
  const auto asked = [&] {
    hammer.strike(server.port());
    static_cast<void>(seconds_of(lead_steps));
    const auto answers_before = hammer.answers();
    const double client_before = hammer.cpu_seconds();
    const double seconds = seconds_of(block_steps);
    answers += hammer.answers() - answers_before;
    client_seconds += hammer.cpu_seconds() - client_before;
    asked_seconds += seconds;
    hammer.strike(0);
    return seconds / block_steps;
  };
  const auto quiet = [&] {
    static_cast<void>(seconds_of(lead_steps));
    return seconds_of(block_steps) / block_steps;
  };

  PairedTimes times;
  static_cast<void>(quiet());  // warm-up
  for (std::int64_t done = 0, pair = 0; done < arguments.steps; done += block_steps, ++pair) {
    // They also alternate in who goes first.
    const double first = pair % 2 == 0 ? asked() : quiet(), second = pair % 2 == 0 ? quiet() : asked();
    times.add(pair % 2 == 0 ? first : second, pair % 2 == 0 ? second : first);
  }
  fmt::print("{:.1f} answers/s, the client took {:.2f} % of a core\n", static_cast<double>(answers) / asked_seconds,
             100 * client_seconds / asked_seconds);
  times.print("asked", "quiet", "expected 1.01 at most");
  return 0;
}

}  // namespace
}  // namespace millrace::benchmarks

int main(int count, char** words) { return millrace::benchmarks::run_benchmark(millrace::benchmarks::run, count, words); }
