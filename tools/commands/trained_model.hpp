#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "actors/jobs/forward_job.hpp"
#include "actors/setup/session.hpp"
#include "configs/run_config.hpp"
#include "layers/model_config.hpp"
#include "runtime/train_config.hpp"
#include "tools/commands/command.hpp"

namespace millrace::tools {

/// The model with weights that --model or --checkpoint names: a folder of transformers or MaxText, a GPT-2 file of llm.c, one of
/// our run directories (its newest checkpoint), or a checkpoint's folder.
struct TrainedModel {
  layers::ModelConfig model;
  std::string folder, checkpoint;               // one of the two is set; a file of llm.c counts as a folder
  std::string run;                              // the run directory of the checkpoint, if it has a run.toml
  std::map<std::string, std::string> identity;  // of the checkpoint
  runtime::LossWeights losses = {};             // from a folder's config.json
  std::vector<std::string> warnings;

  [[nodiscard]] const std::string& path() const { return checkpoint.empty() ? folder : checkpoint; }
};

/// Adds the options that select a model and how it is computed.
[[nodiscard]] std::vector<Option> with_model_options(std::vector<Option> options);

/// Errors: Error(usage) unless exactly one of --model and --checkpoint was given, Error(model), Error(checkpoint).
[[nodiscard]] TrainedModel find_model(const Arguments& arguments, const char* component);

/// The same for a run directory or a checkpoint alone. With `average` it must have moving averages.
[[nodiscard]] TrainedModel checkpointed_model(const std::string& path, const char* component, bool average = false);

/// The description of the run of a model's checkpoint; defaults without a run.
[[nodiscard]] configs::RunConfig configuration_of_run(const TrainedModel& model);

/// The job of a model with rows of `sequence` tokens. The options set ranks (default: one per process), layout, dtype (default: the
/// checkpoint's, else fp32) and threads (default: 0, chosen by run_job).
[[nodiscard]] actors::ForwardJob job_of(const TrainedModel& model, const Arguments& arguments, const actors::Session& session,
                                        std::int64_t rows, std::int64_t sequence);

/// "llama | 46.2k parameters | 4 layers, hidden 32, vocabulary 257 | fp32 | 2 ranks, E t*2 | t*2 H": a line for the user.
[[nodiscard]] std::string describe(const TrainedModel& model, const actors::ForwardJob& job);

/// Connects the processes, runs `work` and closes; an exception ends the job in all processes. The default number of threads is
/// this machine's cores divided by its ranks. Returns 0. Collective.
int run_job(actors::Session& session, actors::ForwardJob& job, const std::function<void()>& work);

}  // namespace millrace::tools
