#pragma once

#include <optional>
#include <string>

#include "actors/pipeline.hpp"
#include "actors/setup/pipeline_plan.hpp"
#include "runtime/checkpoint/checkpoint_reader.hpp"

namespace millrace::actors {

/// A trained model and the pipeline that it runs through, forward only.
struct ForwardJob {
  PlanRequest request;     // its model, the shape of a microbatch, the pipeline
  std::string folder;      // of transformers or MaxText, with the weights; or
  std::string checkpoint;  // one of ours
  int threads = 1;         // of a rank
};

/// The plan of the job. Errors: as make_plan.
[[nodiscard]] PipelinePlan plan_of(const ForwardJob& job);
/// Reads the weights into the ranks of this process. Errors: Error(model), Error(checkpoint).
void read_weights(Pipeline& pipeline, const ForwardJob& job);
/// Collective: all processes are to do the same, and of one build. `what` is what besides the plan. Errors: Error(start).
void agree(Session& session, const PipelinePlan& plan, const ForwardJob& job, const std::string& what);

}  // namespace millrace::actors
