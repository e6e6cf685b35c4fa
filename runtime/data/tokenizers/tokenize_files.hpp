#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "runtime/data/text_files.hpp"
#include "runtime/data/token_writer.hpp"
#include "runtime/data/tokenizers/tokenizer.hpp"

namespace millrace::runtime {

struct TokenizeOptions {
  bool begin_of_document = false;  // put the tokenizer's begin-of-document token before each document
  bool end_of_document = true;     // put its end-of-document token after each document
  std::string text_key = "text";   // the member that holds the text in a .jsonl line
};

struct TokenizeProgress {
  std::uint64_t bytes = 0;  // bytes read, over all files
  std::int64_t documents = 0;
  std::int64_t tokens = 0;
};

/// Writes the documents of `files` in order. Each line of a file that ends with .jsonl is one document (its member `text_key`;
/// blank lines are skipped), every other file is one document. Empty documents write nothing. Long files are read part by part
/// (see next_cut); .jsonl lines are read whole. `report` is called after each document or part. Does not call writer.finish().
/// Errors: Error(data) for a file that cannot be read, for a line that is not a JSON object with that member, and for a token
/// that `options` ask for and the tokenizer lacks; also the errors of TokenWriter.
void tokenize_files(std::span<const DataFile> files, const Tokenizer& tokenizer, const TokenizeOptions& options, TokenWriter& writer,
                    const std::function<void(const TokenizeProgress&)>& report);

}  // namespace millrace::runtime
