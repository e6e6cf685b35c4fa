#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "actors/jobs/forward_job.hpp"
#include "actors/rank/batch_provider.hpp"
#include "actors/setup/session.hpp"

namespace millrace::actors {

/// Loss sums of an evaluation, in nats.
struct Evaluated {
  std::vector<double> losses;  // by microbatch, over its valid targets
  double seconds = 0;          // from the order to the last rank's report
  /// Their sum in order, as training's evaluation adds them up.
  [[nodiscard]] double sum() const;
};

/// Called in process 0, on its main thread, a few times a second: how many microbatches the first rank has begun.
using EvaluationProgress = std::function<void(std::int64_t begun)>;

/// The first `microbatches` held-out microbatches of `batches` through the pipeline: the kernels, programs and order of a training run's
/// evaluation, so the same bits. Collective; the session is connected. In process 0 the losses, elsewhere nothing. Errors: Error(model),
/// Error(checkpoint), Error(config), Error(data) for tokens that cannot be read.
Evaluated evaluate(Session& session, const ForwardJob& job, const BatchProvider& batches, std::int64_t microbatches,
                   const EvaluationProgress& progress = {});

}  // namespace millrace::actors
