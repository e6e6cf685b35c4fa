#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "actors/jobs/forward_job.hpp"
#include "actors/rank/batch_provider.hpp"
#include "actors/setup/session.hpp"
#include "runtime/engine/step_loss.hpp"

namespace millrace::actors {

/// The loss sums of an evaluation, in nats.
struct Evaluated {
  std::vector<runtime::LossTermSums> terms;  // of all stages
  std::vector<double> losses;                // by microbatch, summed over its valid targets, without auxiliary terms
  double seconds = 0;                        // from the order to the last rank's report
  /// Their sum in order, as training's evaluation computes it.
  [[nodiscard]] double sum() const;
};

/// Called in process 0, on its main thread, a few times per second: the number of microbatches that the first rank has begun.
using EvaluationProgress = std::function<void(std::int64_t begun)>;

/// Runs the first `microbatches` held-out microbatches of `batches` through the pipeline, with the kernels, programs and order of
/// a training run's evaluation, and therefore the same bits. Collective; the session must be connected. Returns the losses in
/// process 0, nothing elsewhere. Errors: Error(model), Error(checkpoint), Error(config), Error(data) for tokens that cannot be
/// read.
Evaluated evaluate(Session& session, const ForwardJob& job, const BatchProvider& batches, std::int64_t microbatches,
                   const EvaluationProgress& progress = {});

}  // namespace millrace::actors
