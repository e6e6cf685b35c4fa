#include "actors/jobs/evaluation.hpp"

#include <algorithm>
#include <caf/actor_system.hpp>
#include <chrono>
#include <numeric>
#include <utility>

#include "actors/driver_actor.hpp"
#include "actors/setup/token_compression.hpp"
#include "kernels/base/count.hpp"

namespace millrace::actors {
namespace {

/// Drives one Evaluate phase.
class EvaluationActor : public DriverActor<EvaluationActor, Evaluated> {
 public:
  EvaluationActor(caf::actor_config& config, Setup setup, std::int64_t microbatches)
      : DriverActor(config, std::move(setup)), microbatches_(microbatches) {}

  using DriverActor::handle;
  void handle(const RankReady&) {
    if (!all()) return;
    began_ = Clock::now();
    broadcast(Evaluate{0, microbatches_});
  }
  void handle(const EvaluationReport& report) {
    output_.terms.insert(output_.terms.end(), report.losses.begin(), report.losses.end());
    if (!all()) return;
    std::ranges::stable_sort(output_.terms, {}, &runtime::LossTermSums::stage);
    for (const auto& [stage, term, sums] : output_.terms) {
      if (term.auxiliary) continue;
      output_.losses.resize(sums.size());
      for (std::size_t i = 0; i < sums.size(); ++i) output_.losses[i] += term.weight * (sums[i] / term.divisor);
    }
    output_.seconds = std::chrono::duration<double>(Clock::now() - began_).count();
    finish(std::move(output_));
  }

 private:
  using Clock = std::chrono::steady_clock;
  const std::int64_t microbatches_;
  Evaluated output_;
  Clock::time_point began_;
};

}  // namespace

double Evaluated::sum() const { return std::accumulate(losses.begin(), losses.end(), 0.0); }

Evaluated evaluate(Session& session, const ForwardJob& job, const BatchProvider& batches, std::int64_t microbatches,
                   const EvaluationProgress& progress) {
  const auto plan = plan_of(job);
  RankResources needs;
  needs.threads = job.threads;
  needs.threads_by_option = true;
  needs.compression = open_compression(job.request.model, job.compression);
  needs.evaluation_microbatches = microbatches;
  needs.training = false;
  Pipeline pipeline(session, plan, needs);
  read_weights(pipeline, job);

  std::promise<Evaluated> output;
  Pipeline::Start start;
  start.batches = &batches;
  start.coordinator = [&](std::function<void(const ToRank&)> to_ranks, const caf::actor&) {
    return pipeline.system().spawn<EvaluationActor>(EvaluationActor::Setup{plan.ranks(), std::move(to_ranks), &output}, microbatches);
  };
  agree(session, plan, job,
        fmt::format("{}, {}", counted(microbatches, "microbatch"), counted(batches.evaluation_targets(microbatches), "target")));
  std::function<void()> meanwhile;
  if (progress) meanwhile = [&] { progress(std::max(0, pipeline.progress(0).progress.microbatch)); };
  return drive(session, pipeline, start, output, meanwhile);
}

}  // namespace millrace::actors
