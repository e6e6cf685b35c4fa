#pragma once

#include <memory>
#include <string>

#include "runtime/data/tokenizers/tokenizer.hpp"
#include "runtime/data/tokenizers/tokenizer_files.hpp"
#include "tools/commands/trained_model.hpp"

namespace millrace::tools {

/// A tokenizer and its name in messages.
struct NamedTokenizer {
  std::unique_ptr<runtime::Tokenizer> tokenizer;
  std::string name;                    // as it was given, or found
  bool bytes = false;                  // the byte vocabulary
  runtime::TokenizerFiles files = {};  // with what lies beside the vocabulary
  std::string warning = {};            // why a tokenizer that was named may not be the model's; empty: nothing speaks against it
};

/// The tokenizer of --tokenizer. By default that of the model: for a checkpoint the one that its run kept, or that lies beside the run's
/// token files or in the folder of its model.from; for a model's folder the one in it; the byte vocabulary if the run was trained on text
/// or, without a run, if the model has 257 to 512 ids. Errors: Error(usage) if the tokenizer of the model is unknown, Error(data).
[[nodiscard]] NamedTokenizer find_tokenizer(const TrainedModel& model, const Arguments& arguments, const char* component);

/// The tokenizer of a checkpoint's run, as find_tokenizer() looks for it; nothing if it is not known, or if there is no run.
[[nodiscard]] runtime::TokenizerFiles tokenizer_of_run(const TrainedModel& model);

/// A warning if another tokenizer than the model's lies beside the token files of `data`; empty if it is the same, or if one of them is not
/// known.
[[nodiscard]] std::string doubt_of_token_files(const TrainedModel& model, const runtime::DataConfig& data);

}  // namespace millrace::tools
