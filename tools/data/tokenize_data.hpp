#pragma once

#include <string>
#include <vector>

#include "runtime/data/token_writer.hpp"
#include "runtime/data/tokenizers/tokenize_files.hpp"

namespace millrace::tools {

/// What `millrace data tokenize` is asked for.
struct TokenizeRequest {
  std::string tokenizer;  // see runtime::open_tokenizer
  std::string out;        // prefix (Megatron) or file (llm.c)
  runtime::TokenTarget target = runtime::TokenTarget::megatron;
  bool overwrite = false;
  std::vector<std::string> suffixes;  // of files taken from folders; empty: all
  std::vector<std::string> sources;   // files and folders
  runtime::TokenizeOptions options;
};

/// Makes the token files and prints what they are; returns the exit code.
int tokenize_data(const TokenizeRequest& request);

/// Prints format, tokens, documents and the first `count` ids of a token file, and their text if `tokenizer` is not empty.
int inspect_tokens(const std::string& path, const std::string& tokenizer, std::int64_t count);

}  // namespace millrace::tools
