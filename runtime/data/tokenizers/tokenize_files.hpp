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
  bool begin_of_document = false;  // the tokenizer's token of that name before each document
  bool end_of_document = true;     // and behind it
  std::string text_key = "text";   // of a line of .jsonl
};

struct TokenizeProgress {
  std::uint64_t bytes = 0;  // read, of all files
  std::int64_t documents = 0;
  std::int64_t tokens = 0;
};

/// Writes the documents of `files` in their order: each line of a file that ends with .jsonl is one (its member `text_key`; blank lines are
/// passed over), every other file is one. Documents without text leave nothing. Long files are read part by part (see next_cut), lines of
/// .jsonl whole. `report` is called after each document or part of one. Does not call writer.finish().
/// Errors: Error(data) for a file that cannot be read, for a line that is no JSON object with that member, and for a token that `options`
/// want and the tokenizer lacks; those of TokenWriter.
void tokenize_files(std::span<const DataFile> files, const Tokenizer& tokenizer, const TokenizeOptions& options, TokenWriter& writer,
                    const std::function<void(const TokenizeProgress&)>& report);

}  // namespace millrace::runtime
