#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/jobs/forward_job.hpp"
#include "actors/setup/session.hpp"
#include "layers/model_config.hpp"
#include "runtime/data/tokenizers/tokenizer.hpp"
#include "runtime/train_config.hpp"
#include "tools/commands/command.hpp"

namespace millrace::tools {

/// A model with weights, as --model or --checkpoint names it: a folder of transformers or MaxText, llm.c's file of a GPT-2, a run
/// directory of ours (its newest checkpoint), or a checkpoint's folder.
struct TrainedModel {
  layers::ModelConfig model;
  std::string folder, checkpoint;               // one of them; llm.c's file counts as a folder
  std::string run;                              // the run directory that the checkpoint lies in, where it has a run.toml
  std::map<std::string, std::string> identity;  // the checkpoint's
  double z_loss = 0;                            // of a folder
  std::vector<std::string> warnings;

  [[nodiscard]] const std::string& path() const { return checkpoint.empty() ? folder : checkpoint; }
};

/// Adds the options that name a model and say how it is computed.
[[nodiscard]] std::vector<Option> with_model_options(std::vector<Option> options);

/// Errors: Error(usage) for none or two of --model and --checkpoint, Error(model), Error(checkpoint).
[[nodiscard]] TrainedModel find_model(const Arguments& arguments, const char* who);

/// What the run of a model's checkpoint was trained on; nothing where there is no run.
[[nodiscard]] runtime::DataConfig data_of_run(const TrainedModel& model);

/// The job of a model with rows of `sequence` tokens; ranks, layout and dtype by the options (not given: a rank a process, the
/// checkpoint's dtype, else fp32). threads are those of --threads, 0 where it is not there.
[[nodiscard]] actors::ForwardJob job_of(const TrainedModel& model, const Arguments& arguments, const actors::Session& session,
                                        std::int64_t rows, std::int64_t sequence);

/// A tokenizer and its name in messages.
struct NamedTokenizer {
  std::unique_ptr<runtime::Tokenizer> tokenizer;
  std::string name;
  bool bytes = false;  // the byte vocabulary
};
/// --tokenizer, else that of the model's folder, else the byte vocabulary: for a run that was trained on text, and, if there is no run, for
/// a model of 257 to 512 ids. Errors: Error(usage) if the tokenizer of the model is unknown, Error(data).
[[nodiscard]] NamedTokenizer find_tokenizer(const TrainedModel& model, const Arguments& arguments, const char* who);

/// "llama | 46.2k parameters | 4 layers, hidden 32, vocabulary 257 | fp32 | 2 ranks, E t*2 | t*2 H": a line for the user.
[[nodiscard]] std::string describe(const TrainedModel& model, const actors::ForwardJob& job);

/// Connects the processes, runs `work` and closes; what it throws ends the job everywhere. Threads that were not given are the
/// checkpoint's, else this machine's cores by its ranks. Returns 0. Collective.
int run_job(actors::Session& session, actors::ForwardJob& job, const TrainedModel& model, const std::function<void()>& work);

}  // namespace millrace::tools
