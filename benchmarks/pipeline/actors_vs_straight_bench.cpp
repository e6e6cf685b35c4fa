// The overhead of the actors: a step of one rank through actors, engine, worker and messages, compared with the same programs in
// a plain loop on the same cores, alternating in one process. Both must give the same loss and norm, bit for bit.
//
//     actors_vs_straight_bench [steps=10 threads=2 dtype=fp32 layers=8 sequence=512 rows=4 microbatches=1 …]

#include <fmt/format.h>

#include <chrono>
#include <vector>

#include "benchmarks/pipeline/paired_times.hpp"
#include "benchmarks/pipeline/pipeline_driver.hpp"
#include "kernels/base/check.hpp"
#include "layers/initial_values.hpp"
#include "runtime/engine/sequential_trainer.hpp"

namespace millrace::benchmarks {
namespace {

using runtime::median;

constexpr double kLearningRate = 3e-4, kClip = 1.0;

/// The plan's only stage as a plain loop.
class Straight {
 public:
  Straight(const PipelineDriver& driver, int threads)
      : plan_(driver.plan()),
        batches_(driver.batches()),
        loop_(stages(plan_), options(plan_, threads)),
        team_(threads, driver.cores()),
        context_(team_) {
    for (const auto& spec : plan_.parameters)
      layers::initial_values(spec, plan_.model.initializer_range, PipelineDriver::seed, 0,
                             loop_.rank().shard_with(spec.name).master(spec.name));
    for (const auto* stage : loop_.rank().stages()) stage->shard().refresh_copies(context_);
  }

  PipelineDriver::Step step() {
    const auto begin = std::chrono::steady_clock::now();
    const runtime::UpdateScalars scalars{.learning_rate = kLearningRate, .update = step_ + 1};
    const auto fill = [this](std::int64_t microbatch, const runtime::BatchView& places) { batches_.fill(step_, microbatch, places); };
    const auto done = loop_.step(context_, plan_.schedule.microbatches, batches_.valid_targets(step_), fill, scalars, kClip);
    ++step_;
    return {done.loss, done.norm, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()};
  }

 private:
  static std::vector<runtime::RankStage> stages(const actors::PipelinePlan& plan) {
    std::vector<runtime::RankStage> stages(1);
    auto& stage = stages.front();
    stage.stage = runtime::StageId(0);
    stage.training = plan.programs(stage.stage);
    for (const auto& spec : plan.parameters)
      stage.parameters.push_back({spec.name, spec.shape, stage.stage, spec.use, spec.order, plan.groups.decays(spec.name, spec.shape)});
    return stages;
  }
  static runtime::RankOptions options(const actors::PipelinePlan& plan, int threads) {
    runtime::RankOptions options;
    options.compute = plan.compute;
    options.mode = plan.split_backward ? runtime::BackwardMode::split : runtime::BackwardMode::fused;
    options.accumulators = plan.accumulators;
    options.threads = threads;
    options.optimizer = plan.optimizer;
    return options;
  }

  const actors::PipelinePlan& plan_;
  const RandomTokens& batches_;
  runtime::SequentialTrainer loop_;
  kernels::ThreadTeam team_;
  kernels::ExecutionContext context_;
  std::int64_t step_ = 0;
};

int run(int count, char** words) {
  const auto arguments = PipelineArguments::parse(count, words);
  MILLRACE_CHECK(arguments.ranks == 1, ExitCode::usage, "benchmark", "ranks = {}, expected 1: the plain loop has one", arguments.ranks);
  fmt::print("{}\n", arguments.text());
  PipelineDriver driver(arguments);
  Straight straight(driver, static_cast<int>(arguments.threads));
  PairedTimes times, processor;
  for (std::int64_t step = 0; step < arguments.steps + 2; ++step) {
    // The second of the two finds caches and clock as the first left them, so they also alternate in who goes first.
    PipelineDriver::Step through, plain;
    double through_processor = 0, plain_processor = 0;
    for (const bool actors : {step % 2 == 0, step % 2 != 0}) {
      const double before = processor_seconds();
      (actors ? through : plain) = actors ? driver.step(kLearningRate, kClip) : straight.step();
      (actors ? through_processor : plain_processor) = processor_seconds() - before;
    }
    MILLRACE_CHECK(through.loss == plain.loss && through.norm == plain.norm, ExitCode::internal, "benchmark",
                   "step {}: loss {:a} and norm {:a} through actors, {:a} and {:a} in the loop, expected the same bits", step + 1,
                   through.loss, through.norm, plain.loss, plain.norm);
    if (step < 2) continue;  // warm-up
    times.add(through.seconds, plain.seconds);
    processor.add(through_processor, plain_processor);
  }
  times.print("actors", "loop", "expected 1.01 at most");
  fmt::print("processor time of all threads\n");
  processor.print("actors", "loop", "expected 1.01 at most");
  return 0;
}

}  // namespace
}  // namespace millrace::benchmarks

int main(int count, char** words) { return millrace::benchmarks::run_benchmark(millrace::benchmarks::run, count, words); }
