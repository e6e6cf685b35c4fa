#pragma once

#include <optional>
#include <string>

#include "actors/pipeline.hpp"
#include "actors/setup/pipeline_plan.hpp"
#include "runtime/checkpoint/checkpoint_reader.hpp"

namespace millrace::actors {

/// A trained model and the pipeline that runs its forward.
struct ForwardJob {
  PlanRequest request;      // the model, the shape of a microbatch, the pipeline
  std::string folder;       // the folder of transformers or MaxText with the weights; or
  std::string checkpoint;   // a checkpoint of a run
  std::string compression;  // of the tokens, for a model with n-gram memories (open_compression())
  int threads = 1;          // per rank
};

/// The plan of the job. Errors: those of make_plan().
[[nodiscard]] PipelinePlan plan_of(const ForwardJob& job);
/// Reads the weights into the ranks of this process. Errors: Error(model), Error(checkpoint).
void read_weights(Pipeline& pipeline, const ForwardJob& job);
/// Collective: checks that all processes have the same job and the same build. `what` is compared in addition to the plan.
/// Errors: Error(start).
void agree(Session& session, const PipelinePlan& plan, const ForwardJob& job, const std::string& what);

}  // namespace millrace::actors
