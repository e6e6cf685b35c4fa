#pragma once

#include <string>
#include <vector>

#include "runtime/data/tokenizers/tokenizer_files.hpp"
#include "runtime/train_config.hpp"

namespace millrace::actors {

/// The folder of a run directory with the tokenizer of the run.
[[nodiscard]] std::string tokenizer_folder(const std::string& run_directory);

/// The tokenizer of a run's ids; nothing if none is known. `warnings` are for the user.
struct RunTokenizer {
  runtime::TokenizerFiles files;
  std::vector<std::string> warnings;
};
/// Looks beside the token files of `data`, then in the folder `model_from` (may be empty, may be gone). Text that is read as bytes has the
/// byte vocabulary, which needs no files: nothing is returned. Errors: Error(data) for files that cannot be read.
[[nodiscard]] RunTokenizer find_run_tokenizer(const runtime::DataConfig& data, const std::string& model_from);

/// Copies that tokenizer to the run directory, unless it holds one already. Called by the process that holds the run. Returns the warnings.
/// Errors: Error(data) if the run directory holds another vocabulary, with both hashes; Error(storage).
[[nodiscard]] std::vector<std::string> keep_tokenizer(const std::string& run_directory, const runtime::DataConfig& data,
                                                      const std::string& model_from);

}  // namespace millrace::actors
