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

/// The options that name a model and how it is computed: model, checkpoint, tokenizer, dtype, ranks, chunks, layout, threads.
[[nodiscard]] std::vector<std::string> with_model_options(std::vector<std::string> options);
/// What --help says of them.
#define MILLRACE_MODEL_OPTIONS_HELP                                                                                                    \
  "  --model DIR          a folder with config.json and model.safetensors (transformers' or MaxText's), llm.c's file of a GPT-2, or\n" \
  "                       as --checkpoint\n"                                                                                           \
  "  --checkpoint DIR     a run directory (its newest checkpoint) or a checkpoint of one\n"                                            \
  "  --tokenizer PATH     tokenizer.json, a .model or .tiktoken file, a folder, or byte. Not given: the model folder's, or byte for\n" \
  "                       a model that was trained on bytes\n"                                                                         \
  "  --dtype fp32|bf16    what is computed in (the checkpoint's, else fp32)\n"                                                         \
  "  --ranks R            of the pipeline (as many as processes); --chunks V stages a rank (1); --layout \"E t*2 | t H\"\n"            \
  "  --threads T          of a rank (the checkpoint's, else the cores by the ranks); the same bits for the same T\n"

/// Errors: Error(usage) for none or two of --model and --checkpoint, Error(model), Error(checkpoint).
[[nodiscard]] TrainedModel find_model(const Arguments& arguments, const char* who);

/// What the run of a model's checkpoint was trained on; nothing where there is no run.
[[nodiscard]] runtime::DataConfig data_of_run(const TrainedModel& model);

/// The job of a model with rows of `sequence` tokens; ranks, layout and dtype by the options (not given: a rank a process, the
/// checkpoint's dtype, else fp32). threads are those of --threads, 0 where it is not there.
[[nodiscard]] actors::ForwardJob job_of(const TrainedModel& model, const Arguments& arguments, const actors::Session& session,
                                        std::int64_t rows, std::int64_t sequence);

/// A tokenizer and what people call it.
struct NamedTokenizer {
  std::unique_ptr<runtime::Tokenizer> tokenizer;
  std::string name;
  bool bytes = false;  // the byte vocabulary
};
/// --tokenizer, else that of the model's folder, else the byte vocabulary for a run that was trained on text, and where there is no run for
/// a model of 257 to 512 ids. Errors: Error(usage) for a model of which nothing tells its tokenizer, Error(data).
[[nodiscard]] NamedTokenizer find_tokenizer(const TrainedModel& model, const Arguments& arguments, const char* who);

/// "llama | 46.2k parameters | 4 layers, hidden 32, vocabulary 257 | fp32 | 2 ranks, E t*2 | t*2 H": for people.
[[nodiscard]] std::string describe(const TrainedModel& model, const actors::ForwardJob& job);

/// Connects the processes, runs `work` and closes; what it throws ends the job everywhere. Threads that were not given are the
/// checkpoint's, else this machine's cores by its ranks. Returns 0. Collective.
int run_job(actors::Session& session, actors::ForwardJob& job, const TrainedModel& model, const std::function<void()>& work);

}  // namespace millrace::tools
