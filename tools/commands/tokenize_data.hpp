#pragma once

#include <string>
#include <vector>

#include "runtime/data/token_writer.hpp"
#include "runtime/data/tokenizers/tokenize_files.hpp"
#include "runtime/train_config.hpp"

namespace millrace::tools {

/// The arguments of `millrace data tokenize`.
struct TokenizeRequest {
  std::string tokenizer;  // see runtime::open_tokenizer
  std::string out;        // prefix (Megatron) or file (llm.c)
  runtime::TokenTarget target = runtime::TokenTarget::megatron;
  bool overwrite = false;
  std::vector<std::string> suffixes;  // suffixes of the files taken from folders; empty: all files
  std::vector<std::string> sources;   // files and folders
  runtime::TokenizeOptions options;
};

/// Writes the token files and prints a summary; returns the exit code.
int tokenize_data(const TokenizeRequest& request);

/// Prints format, number of tokens and documents, and the first `count` ids of a token file, also as text if `tokenizer` is not
/// empty.
int inspect_tokens(const std::string& path, const std::string& tokenizer, std::int64_t count);

/// Prints the files of each source of a run's data with their tokens, and what is held out. `vocabulary`: the model's; 0: not known.
/// Errors: those of runtime::open_dataset().
int inspect_data(const runtime::DataConfig& data, std::int64_t vocabulary);

/// Prints the number of compressed ids of a tokenizer and that of its padding token, as keys of a model, and some tokens that share an id;
/// writes the table file `out` unless that is empty. Errors: those of runtime::compress_vocabulary(), Error(usage) if `out` is no
/// .safetensors file.
int compress_vocabulary(const std::string& tokenizer, const std::string& out);

}  // namespace millrace::tools
