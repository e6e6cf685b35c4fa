#pragma once

#include <string>

#include "actors/pipeline.hpp"
#include "actors/setup/pipeline_plan.hpp"
#include "runtime/checkpoint/checkpoint_reader.hpp"

namespace millrace::actors {

/// A forward-only job: a trained model, and the pipeline that runs its forward pass.
struct ForwardJob {
  PlanRequest request;      // the model, the shape of a microbatch, the pipeline
  std::string checkpoint;   // the checkpoint of a run that has the weights; empty: `folder` has them
  std::string folder;       // the folder of a model of transformers or MaxText
  std::string compression;  // where a model with n-gram memories finds its compressed ids (open_compression())
  int threads = 1;          // of each rank
  bool average = false;     // the moving averages of the checkpoint's parameters, in place of their last values
};

/// Makes the plan of the job. Errors: those of make_plan().
[[nodiscard]] PipelinePlan plan_of(const ForwardJob& job);
/// Loads the weights into the ranks of this process. Errors: Error(model), Error(checkpoint).
void read_weights(Pipeline& pipeline, const ForwardJob& job);
/// Checks that all processes have the same plan, weights, number of threads, instruction set and `input`. Collective. Errors: Error(start).
void agree(Session& session, const PipelinePlan& plan, const ForwardJob& job, const std::string& input);

}  // namespace millrace::actors
